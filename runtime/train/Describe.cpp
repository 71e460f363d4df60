// The text of a dry run.
#include "runtime/executor/MemoryPlan.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/TrainingData.h"

#include <utility>

namespace sluice {
namespace {

/// Bytes of a checkpoint: parameters and moments.
uint64_t checkpointBytes(const ExecutableDescription &model) {
  uint64_t bytes = 0;
  for (const StateTensor &tensor : model.tensors)
    if (tensor.role != TensorRole::Gradient)
      bytes += tensor.place.bytes();
  return bytes;
}

/// "21,057,792".
std::string grouped(std::string digits) {
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

/// The ledger's main counts, one a line; `sluice stats` has all of them.
std::string describeLedger(const std::string &text) {
  auto ledger = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  static constexpr std::pair<const char *, const char *> rows[] = {
      {"/parameters/total", "parameters"},
      {"/parameters/active", "active parameters"},
      {"/flops/forward/ideal", "forward FLOPs of a micro-batch"},
      {"/flops/training/ideal", "training FLOPs of a micro-batch"},
      {"/flops/recompute/ideal", "recomputed FLOPs of a micro-batch"},
  };
  std::string out;
  for (const auto &[key, label] : rows)
    if (nlohmann::json::json_pointer pointer(key); ledger.is_object() && ledger.contains(pointer))
      if (const auto &value = ledger[pointer]; value.is_string())
        out += absl::StrFormat("  %-36s %28s\n", label, grouped(value.get<std::string>()));
  return out.empty() ? "  this executable holds none\n" : out;
}

} // namespace

StatusOr<std::string> describeTraining(const Executable &executable, const TrainOptions &options) {
  const ExecutableDescription &model = executable.description;
  SLUICE_ASSIGN_OR_RETURN(TrainingConfig config, readTrainingConfig(model.training, options.overrides));
  int64_t horizon = config.stepsFor(config.tokens);
  SLUICE_ASSIGN_OR_RETURN(
      Schedule schedule, Schedule::create(config.schedule, config.learningRate, horizon, config.batchTokens));
  std::string out = "Settings\n";
  for (const auto &[key, value] : config.resolved.items()) {
    if (!value.is_object())
      out += absl::StrFormat("  %-26s %s\n", key, value.dump());
    else
      for (const auto &[inner, innerValue] : value.items())
        out += absl::StrFormat("  %-26s %s\n", concat(key, ".", inner), innerValue.dump());
  }
  out += concat("\nSchedule\n  ", schedule.describe(), "\n");
  for (int64_t part = 0, last = 0; part <= 10; ++part) {
    int64_t step = std::max<int64_t>(1, horizon * part / 10);
    if (std::exchange(last, step) == step)
      continue;
    out += absl::StrFormat("  step %10d %14d tokens  learning rate %.4e\n", step, step * config.batchTokens,
                           schedule.rate(step));
  }
  if (!options.dataFolder.empty()) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<TrainingData> data,
                            TrainingData::open(model, config, options.dataFolder));
    double windows = static_cast<double>(horizon) * static_cast<double>(config.batchTokens) /
                     static_cast<double>(data->training.seq());
    out += absl::StrFormat("\nData\n  training   %14d tokens in %d windows of %d, %.2f epochs\n"
                           "  validation %14d tokens in %d windows\n",
                           data->training.tokensPerEpoch(), data->training.windows(), data->training.seq(),
                           windows / static_cast<double>(data->training.windows()),
                           data->validation->tokensPerEpoch(), data->validation->windows());
  }
  out += concat("\nMemory\n", formatMemoryPlan(model));
  out += concat("  checkpoint               ", formatBytes(checkpointBytes(model)), "\n\nLedger\n",
                describeLedger(model.ledger));
  SLUICE_RETURN_IF_ERROR(checkMemoryPlan(model, {}, options.memoryLimit, "this machine"));
  return out;
}

} // namespace sluice
