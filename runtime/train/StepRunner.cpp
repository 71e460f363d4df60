#include "runtime/train/StepRunner.h"

#include "runtime/train/Weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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
    }
  }
  if (session.has("accumulate_dense"))
    SLUICE_RETURN_IF_ERROR(runner.checkDenseEntry());
  // Numbers and batches begin where a cache line does.
  uint64_t end = 0;
  auto reserve = [&end](uint64_t bytes) {
    const uint64_t at = end;
    end = (at + bytes + 63) / 64 * 64;
    return at;
  };
  RoomPlan &plan = runner.plan;
  plan.batch = (static_cast<uint64_t>(microTokens) * sizeof(int32_t) + 63) / 64 * 64;
  reserve(plan.batch * 2 * static_cast<uint64_t>(runner.count));
  plan.learningRate = reserve(sizeof(float));
  plan.step = reserve(sizeof(float));
  plan.tokens = reserve(sizeof(float));
  plan.resultBytes = sizeof(float) * (2 + runner.names.auxiliary.size());
  for (const RoutingSum &layer : runner.names.routing)
    plan.resultBytes += sizeof(float) * layer.sums.size();
  plan.results = reserve(plan.resultBytes * static_cast<uint64_t>(runner.count));
  plan.norm = reserve(sizeof(float));
  plan.size = end;
  return runner;
}

/// Its results must fit where those of accumulate are expected; said before hours of training reach it.
Status StepRunner::checkDenseEntry() const {
  for (const NamedOperand &output : session->description().entry("accumulate")->outputs) {
    SLUICE_ASSIGN_OR_RETURN(const Operand *dense, session->output("accumulate_dense", output.name));
    if (dense->type != output.operand.type || dense->shape != output.operand.shape)
      return badInputError("entry point 'accumulate_dense', '", output.name,
                           "': expected the type and shape of accumulate's; compile the model again");
  }
  return absl::OkStatus();
}

Status StepRunner::makeSequences(std::string_view entry, std::unique_ptr<DeviceSequence> Flight::*place) {
  std::vector<SequenceStep> steps;
  auto add = [&steps](StatusOr<SequenceStep> step) -> Status {
    if (step.ok())
      steps.push_back(*step);
    return step.status();
  };
  const size_t microTokens = static_cast<size_t>(shape.batch * shape.sequence);
  for (int64_t micro = 0; micro < count; ++micro) {
    const uint64_t tokens = plan.batch * static_cast<uint64_t>(2 * micro);
    SLUICE_RETURN_IF_ERROR(add(session->copyIn<int32_t>(entry, "tokens", microTokens, tokens)));
    SLUICE_RETURN_IF_ERROR(add(session->copyIn<int32_t>(entry, "targets", microTokens, tokens + plan.batch)));
    SLUICE_RETURN_IF_ERROR(add(session->execution(entry)));
    // Its results, one behind the other: loss_sum, tokens, auxiliary losses, routing.
    uint64_t at = plan.results + plan.resultBytes * static_cast<uint64_t>(micro);
    auto addResult = [&](std::string_view output) -> Status {
      SLUICE_RETURN_IF_ERROR(add(session->copyOut(entry, output, at)));
      at += steps.back().size;
      return absl::OkStatus();
    };
    SLUICE_RETURN_IF_ERROR(addResult("loss_sum"));
    SLUICE_RETURN_IF_ERROR(addResult("tokens"));
    for (const AuxiliarySum &loss : names.auxiliary)
      SLUICE_RETURN_IF_ERROR(addResult(loss.output));
    for (const RoutingSum &layer : names.routing)
      SLUICE_RETURN_IF_ERROR(addResult(layer.output));
  }
  for (auto [name, at] :
       {std::pair{"learning_rate", plan.learningRate}, {"step", plan.step}, {"tokens", plan.tokens}})
    SLUICE_RETURN_IF_ERROR(add(session->copyIn<float>("apply", name, 1, at)));
  SLUICE_RETURN_IF_ERROR(add(session->execution("apply")));
  SLUICE_RETURN_IF_ERROR(add(session->copyOut("apply", "gradient_norm", plan.norm)));
  for (Flight &flight : flights) {
    SLUICE_ASSIGN_OR_RETURN(flight.*place, session->createSequence("a training step", steps, plan.size));
  }
  return absl::OkStatus();
}

int32_t *StepRunner::tokensOf(const Flight &flight, int64_t micro) const {
  return reinterpret_cast<int32_t *>(flight.running->room() + plan.batch * static_cast<uint64_t>(2 * micro));
}

int32_t *StepRunner::targetsOf(const Flight &flight, int64_t micro) const {
  return reinterpret_cast<int32_t *>(flight.running->room() +
                                     plan.batch * static_cast<uint64_t>(2 * micro + 1));
}

float StepRunner::result(const Flight &flight, uint64_t at) const {
  float value = 0;
  std::memcpy(&value, flight.running->room() + at, sizeof value);
  return value;
}

std::string_view StepRunner::accumulateEntry(int64_t step) const {
  return masks.needsDenseGradients(step) ? "accumulate_dense" : "accumulate";
}

Status StepRunner::diverged(const Flight &flight, int64_t lastMicro, const std::string &what) {
  started = 0;
  // Since this step no update has changed a parameter. The gradients, which say so, are emptied, and the same
  // micro-batches fill them again, so that the layer can be named.
  std::vector<char> zeros;
  for (const StateTensor &tensor : session->description().tensors) {
    if (tensor.role != TensorRole::Gradient)
      continue;
    zeros.resize(std::max(zeros.size(), static_cast<size_t>(tensor.bytes())), 0);
    SLUICE_RETURN_IF_ERROR(session->writeState(tensor, 0, zeros.data(), tensor.bytes()));
  }
  const std::string_view entry = accumulateEntry(flight.step);
  const size_t microTokens = static_cast<size_t>(shape.batch * shape.sequence);
  for (int64_t micro = 0; micro <= lastMicro; ++micro) {
    SLUICE_RETURN_IF_ERROR(session->setInput<int32_t>(
        entry, "tokens", absl::MakeConstSpan(tokensOf(flight, micro), microTokens)));
    SLUICE_RETURN_IF_ERROR(session->setInput<int32_t>(
        entry, "targets", absl::MakeConstSpan(targetsOf(flight, micro), microTokens)));
    SLUICE_RETURN_IF_ERROR(session->run(entry));
  }
  SLUICE_ASSIGN_OR_RETURN(std::string name, firstNotFinite(*session));
  return divergedError(
      what, "; ",
      name.empty() ? std::string("every parameter and gradient is finite by itself, so their sum overflowed")
                   : concat("the first values that are not finite are in '", name, "'"),
      "; lower train.lr or optimizer.clip, or look at the data of this step");
}

Status StepRunner::settle(Flight &flight) {
  SLUICE_RETURN_IF_ERROR(flight.running->wait());
  for (int64_t micro = 0; micro < count; ++micro)
    if (const float loss = result(flight, plan.results + plan.resultBytes * static_cast<uint64_t>(micro));
        !std::isfinite(loss))
      return diverged(
          flight, micro,
          concat("step ", flight.step, ", micro-batch ", micro, ": expected a finite loss, found ", loss));
  const float norm = result(flight, plan.norm);
  if (!std::isfinite(norm))
    return diverged(flight, count - 1,
                    concat("step ", flight.step, ": expected a finite gradient norm, found ", norm));
  return absl::OkStatus();
}

Status StepRunner::finish(StepSums &sums) {
  if (started == 0)
    return failure("expected a started step to finish, found none");
  Flight &flight = oldest();
  SLUICE_RETURN_IF_ERROR(settle(flight));
  uint64_t at = plan.results;
  double counted = 0;
  auto next = [&] {
    at += sizeof(float);
    return result(flight, at - sizeof(float));
  };
  for (int64_t micro = 0; micro < count; ++micro) {
    const float loss = next(), here = next();
    sums.nats += loss;
    sums.targets += here;
    counted += here;
    for (AuxiliarySum &auxiliary : sums.auxiliary)
      auxiliary.weightedSum += static_cast<double>(here) * next();
    for (RoutingSum &layer : sums.routing)
      for (double &sum : layer.sums)
        sum += next();
  }
  if (counted != flight.counted)
    return badInputError("step ", flight.step, ": expected the executable to count the data's ",
                         flight.counted, " targets, found ", counted, "; compile the model again");
  sums.gradientNorm = result(flight, plan.norm) / static_cast<float>(counted);
  ++sums.steps;
  first = (first + 1) % maximumInFlight;
  --started;
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
    watched.push_back({mask, room, room});
    change.layers.push_back(
        {.name = mask.weights->name, .products = static_cast<int64_t>(mask.skipAtMost.size())});
  }
  masks = schedule;
  maskSeed = seed;
  return absl::OkStatus();
}

Status StepRunner::updateTopology(int64_t step) {
  const int64_t amount = masks.amount(step), removed = masks.removed(step);
  for (WatchedMask &mask : watched)
    SLUICE_RETURN_IF_ERROR(session->readState(*mask.mask.mask, mask.before.data(), mask.before.size()));
  for (auto [name, value] : {std::pair<const char *, const int64_t *>("seed", &maskSeed),
                             {"step", &step},
                             {"amount", &amount},
                             {"removed", &removed}})
    SLUICE_RETURN_IF_ERROR(
        session->setInput<int64_t>("update_topology", name, absl::MakeConstSpan(value, 1)));
  SLUICE_RETURN_IF_ERROR(session->run("update_topology"));
  for (size_t k = 0; k < watched.size(); ++k) {
    WatchedMask &mask = watched[k];
    SLUICE_RETURN_IF_ERROR(session->readState(*mask.mask.mask, mask.after.data(), mask.after.size()));
    MaskChange::Layer &layer = change.layers[k];
    countChange(mask.before, mask.after, layer);
    const std::vector<int64_t> &most = mask.mask.skipAtMost;
    layer.skipping = std::count_if(most.begin(), most.end(), [&](int64_t atMost) {
      return session->skipsMaskedZeros(mask.mask.pattern, layer.kept <= atMost * mask.mask.matrices);
    });
  }
  change.step = step, change.share = static_cast<double>(amount) * 1e-9,
  change.removed = static_cast<double>(removed) * 1e-9;
  return absl::OkStatus();
}

Status StepRunner::start(const WindowStream &stream, uint64_t firstWindow, int64_t step,
                         double learningRate) {
  if (started == maximumInFlight)
    return failure("expected at most ", maximumInFlight, " steps in flight");
  Flight &flight = flights[(first + started) % maximumInFlight];
  const auto place = masks.needsDenseGradients(step) ? &Flight::dense : &Flight::plain;
  if (!(flight.*place))
    SLUICE_RETURN_IF_ERROR(makeSequences(accumulateEntry(step), place));
  flight.step = step;
  flight.running = (flight.*place).get();
  const int64_t microTokens = shape.batch * shape.sequence;
  int64_t targetCount = 0;
  for (int64_t micro = 0; micro < count; ++micro) {
    int32_t *targets = targetsOf(flight, micro);
    stream.batch(firstWindow + static_cast<uint64_t>(micro * shape.batch), static_cast<uint64_t>(shape.batch),
                 tokensOf(flight, micro), targets);
    targetCount += microTokens - std::count(targets, targets + microTokens, ignoreIndex);
  }
  if (targetCount == 0)
    return usageError("step ", step,
                      ": expected at least one target to learn from, found none; is the text packed in ",
                      "documents of one token?");
  flight.counted = static_cast<double>(targetCount);
  auto set = [&flight](uint64_t at, float value) {
    std::memcpy(flight.running->room() + at, &value, sizeof value);
  };
  set(plan.learningRate, static_cast<float>(learningRate));
  set(plan.step, static_cast<float>(step));
  set(plan.tokens, static_cast<float>(targetCount));
  SLUICE_RETURN_IF_ERROR(session->run(*flight.running));
  ++started;
  if (!masks.isDue(step))
    return absl::OkStatus();
  for (int i = 0; i < started; ++i)
    SLUICE_RETURN_IF_ERROR(settle(flights[(first + i) % maximumInFlight]));
  return updateTopology(step);
}

Status StepRunner::run(const WindowStream &stream, uint64_t firstWindow, int64_t step, double learningRate,
                       StepSums &sums) {
  SLUICE_RETURN_IF_ERROR(start(stream, firstWindow, step, learningRate));
  while (started > 0)
    SLUICE_RETURN_IF_ERROR(finish(sums));
  return absl::OkStatus();
}

} // namespace sluice
