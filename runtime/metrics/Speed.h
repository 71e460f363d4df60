// Recent training speed, from the time of steps alone: evaluations and saves do not count.
#pragma once

#include <cstdint>

namespace sluice {

/// An exponentially weighted mean of tokens per second. The first step is left out: it pays for preparation.
class SpeedMeter {
public:
  /// `decay` is the weight that a step keeps when the next one arrives, in [0, 1).
  explicit SpeedMeter(double decay = 0.95) : decay(decay) {}
  /// One finished step: its tokens and the seconds it took.
  void addStep(uint64_t tokens, double seconds);
  /// Tokens per second; 0 before the second step. Weighted tokens over weighted seconds, so it needs no bias
  /// correction.
  double tokensPerSecond() const;
  /// Seconds for `tokens` at this speed; NaN while the speed is unknown.
  double secondsFor(uint64_t tokens) const;

private:
  double decay, weightedTokens = 0, weightedSeconds = 0;
  bool sawFirst = false;
};

} // namespace sluice
