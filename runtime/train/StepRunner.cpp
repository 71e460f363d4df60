#include "runtime/train/StepRunner.h"

#include "runtime/train/Weights.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

bool takePrefix(const std::string &text, std::string_view prefix, std::string &rest) {
  if (text.rfind(prefix, 0) != 0)
    return false;
  rest = text.substr(prefix.size());
  return true;
}

Status expectScalar(const StatusOr<const Operand *> &operand, std::string_view entry, std::string_view name) {
  if (!operand.ok())
    return badInputError(std::string(operand.status().message()));
  if ((*operand)->type != ElementType::F32 || (*operand)->elements() != 1)
    return badInputError("entry point '", entry, "', '", name, "': expected one f32, found ",
                         (*operand)->elements(), " of ", elementTypeName((*operand)->type),
                         "; compile the model again");
  return absl::OkStatus();
}

} // namespace

void StepSums::clear() {
  steps = 0;
  nats = targets = gradientNorm = 0;
  for (AuxiliarySum &loss : auxiliary)
    loss.weightedSum = 0;
  for (RoutingSum &layer : routing)
    std::fill(layer.sums.begin(), layer.sums.end(), 0);
}

StepSums StepRunner::emptySums() const {
  return names;
}

StatusOr<StepRunner> StepRunner::create(Session &session, int64_t batchTokens) {
  StepRunner runner(session);
  SLUICE_ASSIGN_OR_RETURN(runner.shape, batchShape(session, "accumulate"));
  for (const char *name : {"loss_sum", "tokens"})
    SLUICE_RETURN_IF_ERROR(expectScalar(session.output("accumulate", name), "accumulate", name));
  for (const char *name : {"learning_rate", "step", "tokens"})
    SLUICE_RETURN_IF_ERROR(expectScalar(session.input("apply", name), "apply", name));
  SLUICE_RETURN_IF_ERROR(expectScalar(session.output("apply", "gradient_norm"), "apply", "gradient_norm"));
  int64_t microTokens = runner.shape.batch * runner.shape.sequence;
  if (batchTokens < microTokens || batchTokens % microTokens != 0)
    return usageError("train.batch_tokens: expected a multiple of batch x seq = ", runner.shape.batch, " x ",
                      runner.shape.sequence, " = ", microTokens, ", found ", batchTokens);
  runner.count = batchTokens / microTokens;
  runner.tokens.resize(static_cast<size_t>(microTokens));
  runner.targets.resize(static_cast<size_t>(microTokens));
  size_t largest = 0;
  for (const NamedOperand &output : session.description().entry("accumulate")->outputs) {
    std::string rest;
    if (takePrefix(output.name, "auxiliary/", rest)) {
      SLUICE_RETURN_IF_ERROR(expectScalar(&output.operand, "accumulate", output.name));
      runner.names.auxiliary.push_back({rest, output.name, 0});
    } else if (takePrefix(output.name, "routing/", rest)) {
      if (output.operand.type != ElementType::F32 || output.operand.elements() < 5)
        return badInputError("entry point 'accumulate', '", output.name,
                             "': expected experts + 4 elements of f32, ", "found ", output.operand.elements(),
                             "; compile the model again");
      size_t size = static_cast<size_t>(output.operand.elements());
      runner.names.routing.push_back({rest, output.name, std::vector<double>(size)});
      largest = std::max(largest, size);
    }
  }
  runner.statistics.resize(largest);
  return runner;
}

Status StepRunner::diverged(const std::string &what) const {
  SLUICE_ASSIGN_OR_RETURN(std::string name, firstNotFinite(*session));
  return divergedError(
      what, "; ",
      name.empty() ? std::string("every parameter and gradient is finite by itself, so their sum overflowed")
                   : concat("the first values that are not finite are in '", name, "'"),
      "; lower train.lr or optimizer.clip, or look at the data of this step");
}

Status StepRunner::readOutputs(std::string_view entry, double counted, StepSums &sums) {
  for (AuxiliarySum &loss : sums.auxiliary) {
    SLUICE_ASSIGN_OR_RETURN(float value, session->scalarOutput(entry, loss.output));
    loss.weightedSum += counted * value;
  }
  for (RoutingSum &layer : sums.routing) {
    absl::Span<float> values(statistics.data(), layer.sums.size());
    SLUICE_RETURN_IF_ERROR(session->getOutput<float>(entry, layer.output, values));
    for (size_t index = 0; index < values.size(); ++index)
      layer.sums[index] += values[index];
  }
  return absl::OkStatus();
}

Status StepRunner::accumulate(const WindowStream &stream, uint64_t firstWindow, int64_t step,
                              StepSums &sums) {
  const std::string_view entry = masks.needsDenseGradients(step) ? "accumulate_dense" : "accumulate";
  for (int64_t micro = 0; micro < count; ++micro) {
    stream.batch(firstWindow + static_cast<uint64_t>(micro * shape.batch), static_cast<uint64_t>(shape.batch),
                 tokens.data(), targets.data());
    SLUICE_RETURN_IF_ERROR(session->setInput<int32_t>(entry, "tokens", tokens));
    SLUICE_RETURN_IF_ERROR(session->setInput<int32_t>(entry, "targets", targets));
    SLUICE_RETURN_IF_ERROR(session->run(entry));
    SLUICE_ASSIGN_OR_RETURN(float loss, session->scalarOutput(entry, "loss_sum"));
    SLUICE_ASSIGN_OR_RETURN(float counted, session->scalarOutput(entry, "tokens"));
    if (!std::isfinite(loss))
      return diverged(
          concat("step ", step, ", micro-batch ", micro, ": expected a finite loss, found ", loss));
    sums.nats += loss;
    sums.targets += counted;
    SLUICE_RETURN_IF_ERROR(readOutputs(entry, counted, sums));
  }
  return absl::OkStatus();
}

Status StepRunner::updateMasks(const MaskSchedule &schedule, int64_t seed) {
  const Session &readable = *session;
  for (const char *name : {"seed", "step", "amount", "removed"}) {
    SLUICE_ASSIGN_OR_RETURN(const Operand *input, readable.input("update_topology", name));
    if (input->type != ElementType::I64 || input->elements() != 1)
      return badInputError("entry point 'update_topology', '", name, "': expected one i64, found ",
                           input->elements(), " of ", elementTypeName(input->type),
                           "; compile the model again");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<ModelMask> all, modelMasks(session->description()));
  for (const ModelMask &mask : all) {
    const std::string room(mask.mask->place.bytes(), '\0');
    watched.push_back({mask.mask, room, room});
    change.layers.push_back({mask.weights->name, 0, 0, 0});
  }
  masks = schedule;
  maskSeed = seed;
  return absl::OkStatus();
}

Status StepRunner::updateTopology(int64_t step) {
  const int64_t amount = masks.amount(step), removed = masks.removed(step);
  for (WatchedMask &mask : watched)
    SLUICE_RETURN_IF_ERROR(session->readState(*mask.mask, mask.before.data(), mask.before.size()));
  for (auto [name, value] : {std::pair<const char *, const int64_t *>("seed", &maskSeed),
                             {"step", &step},
                             {"amount", &amount},
                             {"removed", &removed}})
    SLUICE_RETURN_IF_ERROR(
        session->setInput<int64_t>("update_topology", name, absl::MakeConstSpan(value, 1)));
  SLUICE_RETURN_IF_ERROR(session->run("update_topology"));
  for (size_t k = 0; k < watched.size(); ++k) {
    WatchedMask &mask = watched[k];
    SLUICE_RETURN_IF_ERROR(session->readState(*mask.mask, mask.after.data(), mask.after.size()));
    countChange(mask.before, mask.after, change.layers[k]);
  }
  change.step = step, change.share = static_cast<double>(amount) * 1e-9,
  change.removed = static_cast<double>(removed) * 1e-9;
  return absl::OkStatus();
}

Status StepRunner::run(const WindowStream &stream, uint64_t firstWindow, int64_t step, double learningRate,
                       StepSums &sums) {
  double before = sums.targets;
  SLUICE_RETURN_IF_ERROR(accumulate(stream, firstWindow, step, sums));
  float counted = static_cast<float>(sums.targets - before);
  if (!(counted > 0))
    return usageError("step ", step,
                      ": expected at least one target to learn from, found none; is the text packed in ",
                      "documents of one token?");
  float rate = static_cast<float>(learningRate), number = static_cast<float>(step);
  SLUICE_RETURN_IF_ERROR(session->setInput<float>("apply", "learning_rate", absl::MakeConstSpan(&rate, 1)));
  SLUICE_RETURN_IF_ERROR(session->setInput<float>("apply", "step", absl::MakeConstSpan(&number, 1)));
  SLUICE_RETURN_IF_ERROR(session->setInput<float>("apply", "tokens", absl::MakeConstSpan(&counted, 1)));
  SLUICE_RETURN_IF_ERROR(session->run("apply"));
  SLUICE_ASSIGN_OR_RETURN(float norm, session->scalarOutput("apply", "gradient_norm"));
  if (!std::isfinite(norm)) {
    // `apply` has left the parameters alone and emptied the gradients: the same micro-batches fill them
    // again, so that the layer can be named.
    StepSums again = names;
    SLUICE_RETURN_IF_ERROR(accumulate(stream, firstWindow, step, again));
    return diverged(concat("step ", step, ": expected a finite gradient norm, found ", norm));
  }
  if (masks.isDue(step))
    SLUICE_RETURN_IF_ERROR(updateTopology(step));
  sums.gradientNorm = norm / counted;
  ++sums.steps;
  return absl::OkStatus();
}

} // namespace sluice
