// When masks are updated and how much each update moves, as a pure function of the step.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

struct MaskScheduleOptions {
  enum class Shape { Cosine, Linear, Constant };
  bool moves = false; // whether any mask is updated
  int64_t everySteps = 100;
  double start = 0.1, end = 0.005; // fraction of kept weights that an update replaces
  Shape shape = Shape::Cosine;
  double until = 1.0;      // updates end after this share of the horizon
  bool byGradient = false; // growth reads dense gradients, which `accumulate_dense` sums
};

/// Updates follow steps t = every, 2 every, ... <= T' = until x horizon, with p = t / T':
///   cosine    end + (start - end) (1 + cos(pi p)) / 2
///   linear    start + (end - start) p
///   constant  start
/// Gradual pruning (Zhu and Gupta 2017) has removed 1 - (1 - p)^3 of what it will remove. All masks of a
/// model that move share one schedule.
class MaskSchedule {
public:
  MaskSchedule() = default;
  MaskSchedule(const MaskScheduleOptions &options, int64_t horizonSteps)
      : options(options), horizon(horizonSteps) {}

  /// Whether an update follows step `step`.
  bool isDue(int64_t step) const;
  /// The input `amount` of `update_topology` after that step, in billionths: the share of its kept weights
  /// that a mask which grows replaces.
  int64_t amount(int64_t step) const;
  /// The input `removed`, in billionths: how much of what it will remove gradual pruning has removed by then.
  int64_t removed(int64_t step) const;
  /// Whether the step's gradients are summed by `accumulate_dense`.
  bool needsDenseGradients(int64_t step) const { return options.byGradient && isDue(step); }

private:
  double last() const { return options.until * static_cast<double>(horizon); }

  MaskScheduleOptions options;
  int64_t horizon = 1;
};

} // namespace sluice
