#include "runtime/train/Schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

const char *kindName(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::Cosine:
    return "cosine";
  case ScheduleKind::Linear:
    return "linear";
  case ScheduleKind::WarmupStableDecay:
    return "wsd";
  case ScheduleKind::Constant:
    return "constant";
  }
  return "unknown";
}

bool isShare(double value) {
  return value >= 0 && value <= 1;
}

} // namespace

StatusOr<Schedule> Schedule::create(const ScheduleOptions &options, double peak, int64_t steps,
                                    int64_t batchTokens) {
  if (!(peak > 0) || !std::isfinite(peak))
    return usageError("train.lr: expected a positive learning rate, found ", peak);
  if (steps < 1 || batchTokens < 1)
    return usageError("schedule: expected at least one step, found ", steps, "; raise --tokens");
  double floor = options.floorAbsolute ? options.floor : options.floor * peak;
  if (!(floor >= 0) || !(floor <= peak))
    return usageError("schedule.floor: expected a rate between 0 and the peak ", peak, ", found ", floor);
  if (!isShare(options.decay))
    return usageError("schedule.decay: expected a share between 0 and 1, found ", options.decay);
  double warmup = 0, amount = options.warmup.amount;
  switch (options.warmup.kind) {
  case Warmup::Kind::Tokens:
    warmup = std::ceil(amount / static_cast<double>(batchTokens));
    break;
  case Warmup::Kind::Fraction:
    if (!isShare(amount))
      return usageError("schedule.warmup: expected a share between 0 and 1, found ", amount);
    warmup = std::round(amount * static_cast<double>(steps));
    break;
  case Warmup::Kind::Clip:
    warmup = std::round(std::clamp(0.01 * static_cast<double>(steps), 200.0, 2000.0));
    break;
  }
  if (!(warmup >= 0))
    return usageError("schedule.warmup: expected at least 0, found ", amount);
  Schedule schedule;
  schedule.options = options;
  schedule.peak = peak;
  schedule.floor = floor;
  schedule.horizon = steps;
  schedule.warmup = static_cast<int64_t>(std::min(warmup, static_cast<double>(steps)));
  schedule.decaySteps =
      std::min(static_cast<int64_t>(std::llround(options.decay * static_cast<double>(steps))),
               steps - schedule.warmup);
  return schedule;
}

double Schedule::rate(int64_t step) const {
  step = std::clamp<int64_t>(step, 1, horizon);
  if (step <= warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  double progress = static_cast<double>(step - warmup) / static_cast<double>(horizon - warmup);
  switch (options.kind) {
  case ScheduleKind::Cosine:
    return floor + (peak - floor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  case ScheduleKind::Linear:
    return peak + (floor - peak) * progress;
  case ScheduleKind::Constant:
    return peak;
  case ScheduleKind::WarmupStableDecay:
    break;
  }
  int64_t into = step - (horizon - decaySteps);
  if (into <= 0)
    return peak;
  double share = static_cast<double>(into) / static_cast<double>(decaySteps);
  return options.decayShape == DecayShape::Linear ? peak + (floor - peak) * share
                                                  : floor + (peak - floor) * (1 - std::sqrt(share));
}

std::string Schedule::describe() const {
  return absl::StrFormat("%s, %d steps, warmup %d, peak %.3g, floor %.3g", kindName(options.kind), horizon,
                         warmup, peak, options.kind == ScheduleKind::Constant ? peak : floor);
}

} // namespace sluice
