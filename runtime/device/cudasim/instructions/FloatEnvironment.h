// Arithmetic that is rounded another way than to nearest.
#pragma once

#include "runtime/device/cudasim/program/Program.h"

#include <cfenv>

namespace sluice::cudasim {

/// Sets the host's rounding while it lives. Operands and results must pass through `opaque`, or the compiler
/// moves the arithmetic out of it.
class RoundingScope {
public:
  explicit RoundingScope(Rounding rounding) : previous(std::fegetround()) {
    std::fesetround(rounding == Rounding::Zero   ? FE_TOWARDZERO
                    : rounding == Rounding::Down ? FE_DOWNWARD
                    : rounding == Rounding::Up   ? FE_UPWARD
                                                 : FE_TONEAREST);
  }
  ~RoundingScope() { std::fesetround(previous); }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;

private:
  int previous;
};

/// The value, in a way that the compiler cannot look through.
template <typename T> inline T opaque(T value) {
  volatile T copy = value;
  return copy;
}

} // namespace sluice::cudasim
