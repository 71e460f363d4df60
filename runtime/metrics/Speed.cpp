#include "runtime/metrics/Speed.h"

#include <limits>

namespace sluice {

void SpeedMeter::addStep(uint64_t tokens, double seconds) {
  if (!sawFirst) {
    sawFirst = true;
    return;
  }
  weightedTokens = decay * weightedTokens + static_cast<double>(tokens);
  weightedSeconds = decay * weightedSeconds + seconds;
}

double SpeedMeter::tokensPerSecond() const {
  return weightedSeconds > 0 ? weightedTokens / weightedSeconds : 0;
}

double SpeedMeter::secondsFor(uint64_t tokens) const {
  const double speed = tokensPerSecond();
  return speed > 0 ? static_cast<double>(tokens) / speed : std::numeric_limits<double>::quiet_NaN();
}

} // namespace sluice
