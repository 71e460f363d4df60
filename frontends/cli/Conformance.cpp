#include "frontends/cli/Conformance.h"

#include "runtime/data/Windows.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Evaluate.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

namespace sluice::cli {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Inputs by their names: ids within the vocabulary, some targets that do not count, and numbers of a step.
Status setInputs(Session &session, const EntryPoint &entry, int64_t vocabulary, int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  for (const NamedOperand &input : entry.inputs) {
    const auto count = static_cast<size_t>(input.operand.elements());
    if (input.operand.type == ElementType::I32) {
      std::vector<int32_t> ids(count);
      for (size_t i = 0; i < count; ++i)
        ids[i] = input.name == "targets" && i % 9 == 8
                     ? ignoreIndex
                     : static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
      SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>(entry.name, input.name, ids));
    } else if (input.operand.type == ElementType::I64) {
      const std::vector<int64_t> values(count, input.name == "seed"     ? seed
                                               : input.name == "amount" ? 100000000 // a tenth, in billionths
                                                                        : 1);
      SLUICE_RETURN_IF_ERROR(session.setInput<int64_t>(entry.name, input.name, values));
    } else {
      const std::vector<float> values(count, input.name == "learning_rate" ? 1e-3f
                                             : input.name == "tokens"      ? 64.0f
                                                                           : 3.0f);
      SLUICE_RETURN_IF_ERROR(session.setInput<float>(entry.name, input.name, values));
    }
  }
  return absl::OkStatus();
}

double floatDistance(const std::string &want, const std::string &got) {
  double difference = 0, norm = 0;
  for (size_t at = 0; at < want.size(); at += sizeof(float)) {
    float expected = 0, actual = 0;
    std::memcpy(&expected, want.data() + at, sizeof expected);
    std::memcpy(&actual, got.data() + at, sizeof actual);
    if (std::isfinite(expected) != std::isfinite(actual))
      return infinite;
    if (!std::isfinite(expected))
      continue;
    difference += std::pow(static_cast<double>(actual) - expected, 2);
    norm += std::pow(static_cast<double>(expected), 2);
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

class Conformance {
public:
  Conformance(Session &reference, Session &device) : reference(reference), device(device) {}

  Status runEntry(const EntryPoint &entry) {
    for (size_t index = 0; index < entry.commands.size(); ++index)
      SLUICE_RETURN_IF_ERROR(runCommand(entry, index));
    return absl::OkStatus();
  }

  std::vector<ConformanceRow> rows() const {
    std::vector<ConformanceRow> list;
    list.reserve(byKind.size());
    for (const auto &[kind, row] : byKind)
      list.push_back(row);
    return list;
  }

private:
  Status runCommand(const EntryPoint &entry, size_t index) {
    const Command &command = entry.commands[index];
    // Outputs too: some are added to, or updated in place.
    for (const std::vector<Operand> *operands : {&command.inputs, &command.outputs})
      for (const Operand &operand : *operands) {
        SLUICE_RETURN_IF_ERROR(read(reference, operand, expected));
        SLUICE_RETURN_IF_ERROR(device.writeOperand(operand, expected.data(), expected.size()));
      }
    SLUICE_RETURN_IF_ERROR(reference.runCommand(entry.name, index));
    SLUICE_RETURN_IF_ERROR(device.runCommand(entry.name, index));
    ConformanceRow &row = byKind[command.kind];
    row.kind = command.kind;
    ++row.commands;
    for (size_t result = 0; result < command.outputs.size(); ++result) {
      const Operand &operand = command.outputs[result];
      SLUICE_RETURN_IF_ERROR(read(reference, operand, expected));
      SLUICE_RETURN_IF_ERROR(read(device, operand, actual));
      const double error = operand.type == ElementType::F32 ? floatDistance(expected, actual)
                           : expected == actual             ? 0.0
                                                            : infinite;
      if (error > row.worst) {
        row.worst = error;
        row.where = concat(entry.name, " result ", result, " of ", command.origin);
      }
    }
    return absl::OkStatus();
  }

  static Status read(const Session &session, const Operand &operand, std::string &bytes) {
    bytes.resize(operand.bytes());
    return session.readOperand(operand, bytes.data(), bytes.size());
  }

  Session &reference;
  Session &device;
  std::map<std::string, ConformanceRow> byKind;
  std::string expected, actual;
};

} // namespace

StatusOr<std::vector<ConformanceRow>> checkConformance(const Executable &executable, Device &reference,
                                                       Device &device, int64_t seed) {
  SLUICE_ASSIGN_OR_RETURN(int64_t vocabulary, modelVocabulary(executable.description));
  SLUICE_ASSIGN_OR_RETURN(Session right, Session::create(executable, reference));
  SLUICE_ASSIGN_OR_RETURN(Session tested, Session::create(executable, device));
  Conformance conformance(right, tested);
  for (const char *name :
       {"init", "accumulate", "accumulate_dense", "apply", "update_topology", "eval", "logits"})
    if (const EntryPoint *entry = executable.description.entry(name)) {
      SLUICE_RETURN_IF_ERROR(setInputs(right, *entry, vocabulary, seed));
      SLUICE_RETURN_IF_ERROR(conformance.runEntry(*entry));
    }
  return conformance.rows();
}

std::string conformanceTable(const std::vector<ConformanceRow> &rows) {
  std::string out = absl::StrFormat("%-30s %8s %12s  %-8s %s\n", "command kind", "commands", "worst error",
                                    "state", "where the error is largest");
  for (const ConformanceRow &row : rows)
    out += absl::StrFormat("%-30s %8d %12.2e  %-8s %s\n", row.kind, row.commands, row.worst,
                           row.conforms() ? "conforms" : "DIFFERS", row.where.substr(0, 38));
  return out;
}

} // namespace sluice::cli
