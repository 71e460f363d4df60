// Finds the first command whose result leaves the interpreter's: the compiled program runs one command at a
// time beside the planned graph in float64.
#include "frontends/cli/Exec.h"

#include "dialects/interpreter/Interpreter.h"
#include "dialects/plan/Plan.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Weights.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace sluice::cli {
namespace {

/// What the interpreter computed for one command: its results in order.
struct Reference {
  std::vector<HostTensor> results;
};

/// Relative L2 distance; for integers 0 if equal, else infinity.
StatusOr<double> distance(const Session &session, const Operand &operand, const HostTensor &expected) {
  if (operand.elements() != expected.size())
    return failure("an operand has ", operand.elements(), " elements, its value in the graph ",
                   expected.size());
  std::vector<double> actual(expected.values.size());
  if (operand.type == ElementType::F32) {
    std::vector<float> values(actual.size());
    SLUICE_RETURN_IF_ERROR(session.readOperand(operand, values.data(), operand.bytes()));
    actual.assign(values.begin(), values.end());
  } else if (operand.type == ElementType::I32) {
    std::vector<int32_t> values(actual.size());
    SLUICE_RETURN_IF_ERROR(session.readOperand(operand, values.data(), operand.bytes()));
    actual.assign(values.begin(), values.end());
    return std::equal(actual.begin(), actual.end(), expected.values.begin()) ? 0.0 : INFINITY;
  } else {
    return failure("an operand of type ", elementTypeName(operand.type), " cannot be compared");
  }
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected.values[i]) * (actual[i] - expected.values[i]);
    norm += expected.values[i] * expected.values[i];
  }
  if (!std::isfinite(difference))
    return INFINITY;
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

} // namespace

StatusOr<BisectReport> execBisect(Compiler &compiler, LoadedModel model, const ExecWeights &weights,
                                  const ExecInputs &inputs, double limit, Device &device) {
  CompilerOptions options;
  options.bindings = concat("batch=", inputs.batch, ",seq=", inputs.sequence);
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(model, options));
  SLUICE_ASSIGN_OR_RETURN(Executable executable, parseExecutable(std::move(bytes), "the compiled model"));
  const EntryPoint *entry = executable.description.entry("accumulate");

  // The interpreter first: compile() left the module planned, so its commands are the executable's, in order.
  std::vector<Reference> references;
  InterpreterOptions interpreterOptions;
  interpreterOptions.observe = [&](Operation *op, ArrayRef<const HostTensor *> results) {
    if (!isa<plan::CommandOp>(op))
      return;
    Reference reference;
    for (const HostTensor *result : results)
      reference.results.push_back(*result);
    references.push_back(std::move(reference));
  };
  SLUICE_RETURN_IF_ERROR(interpretPlanned(*model.module, weights, inputs, interpreterOptions));
  if (references.size() != entry->commands.size())
    return failure("the planned graph ran ", references.size(), " commands, the executable has ",
                   entry->commands.size());

  SLUICE_ASSIGN_OR_RETURN(Session session, Session::create(executable, device));
  SLUICE_RETURN_IF_ERROR(weights.load(session));
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate", "tokens", inputs.tokens));
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate", "targets", inputs.targets));
  BisectReport report;
  for (size_t index = 0; index < references.size(); ++index) {
    const Command &command = entry->commands[index];
    SLUICE_RETURN_IF_ERROR(session.runCommand("accumulate", index));
    for (size_t result = 0; result < references[index].results.size(); ++result) {
      SLUICE_ASSIGN_OR_RETURN(double error,
                              distance(session, command.outputs[result], references[index].results[result]));
      report.worst = std::max(report.worst, error);
      if (error > limit) {
        report.command =
            concat("command ", index, " (", command.kind, " of ", command.origin, "), result ", result);
        report.error = error;
        return report;
      }
    }
    ++report.compared;
  }
  return report;
}

} // namespace sluice::cli
