#include "runtime/train/MaskSchedule.h"

#include <cmath>
#include <numbers>

namespace sluice {

bool MaskSchedule::isDue(int64_t step) const {
  return options.moves && step > 0 && step % options.everySteps == 0 && static_cast<double>(step) <= last();
}

int64_t MaskSchedule::amount(int64_t step) const {
  const double share = static_cast<double>(step) / last();
  double value = options.start;
  if (options.shape == MaskScheduleOptions::Shape::Cosine)
    value = options.end + (options.start - options.end) * (1 + std::cos(std::numbers::pi * share)) / 2;
  else if (options.shape == MaskScheduleOptions::Shape::Linear)
    value = options.start + (options.end - options.start) * share;
  return std::llround(value * 1e9);
}

int64_t MaskSchedule::removed(int64_t step) const {
  const double left = 1 - static_cast<double>(step) / last();
  return std::llround((1 - left * left * left) * 1e9);
}

} // namespace sluice
