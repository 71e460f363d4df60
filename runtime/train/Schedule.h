// The learning rate as a pure function of the step.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>

namespace sluice {

enum class ScheduleKind { Cosine, Linear, WarmupStableDecay, Constant };
enum class DecayShape { Linear, OneMinusSqrt };

/// How long the rate rises from 0.
struct Warmup {
  enum class Kind {
    Tokens,   // ceil(amount / batch_tokens) steps
    Fraction, // round(amount * steps) steps
    Clip,     // clip(0.01 * steps, 200, 2000) steps, rounded: the studies' rule
  };
  Kind kind = Kind::Clip;
  double amount = 0;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::Cosine;
  Warmup warmup;
  double floor = 0.1; // lowest rate: a share of the peak, or a rate when `floorAbsolute`
  bool floorAbsolute = false;
  double decay = 0.2; // WSD: share of the steps at the end in which the rate falls
  DecayShape decayShape = DecayShape::OneMinusSqrt;
};

/// Rate of step t = 1 .. N, with W = warmup steps (at most N) and p = (t - W) / (N - W):
///   warmup    t <= W: peak t / W
///   cosine    floor + (peak - floor) (1 + cos(pi p)) / 2
///   linear    peak + (floor - peak) p
///   constant  peak
///   WSD       peak, then over the last D = round(decay N) steps (those after the warmup), q = (t - (N - D))
///   / D:
///             linear peak + (floor - peak) q; 1-sqrt floor + (peak - floor) (1 - sqrt(q))
class Schedule {
public:
  /// `steps` >= 1 is the horizon; `batchTokens` the tokens of a step. Errors (usage): a peak that is not
  /// positive and finite, a floor outside [0, peak], shares outside [0, 1].
  static StatusOr<Schedule> create(const ScheduleOptions &options, double peak, int64_t steps,
                                   int64_t batchTokens);

  /// The rate of step 1 .. steps(); beyond the horizon the rate of its last step.
  double rate(int64_t step) const;
  int64_t steps() const { return horizon; }
  int64_t warmupSteps() const { return warmup; }
  /// "cosine, 610 steps, warmup 200, peak 2e-03, floor 2e-04".
  std::string describe() const;

private:
  ScheduleOptions options;
  double peak = 0, floor = 0;
  int64_t horizon = 1, warmup = 0, decaySteps = 0;
};

} // namespace sluice
