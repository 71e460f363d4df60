#include "runtime/support/SoftDrop.h"

#include <algorithm>
#include <bit>

namespace sluice {

int64_t fixedLog2(uint64_t x) {
  const int exponent = 63 - std::countl_zero(x);
  uint64_t mantissa = x << (63 - exponent);
  int64_t value = exponent;
  for (int bit = 0; bit < 32; ++bit) {
    const auto square = static_cast<uint64_t>(static_cast<unsigned __int128>(mantissa) * mantissa >> 64);
    const bool atLeastTwo = square >> 63 != 0;
    mantissa = atLeastTwo ? square : square << 1;
    value = 2 * value + (atLeastTwo ? 1 : 0);
  }
  return value;
}

uint32_t softDropKey(double square, uint32_t draw) {
  const auto bits = std::bit_cast<uint64_t>(square);
  const auto exponent = static_cast<int64_t>(bits >> 52 & 0x7ff);
  if (exponent == 0x7ff)
    return ~uint32_t{0};
  if (exponent == 0) // zero: a square of float32 numbers is never subnormal
    return 0;
  constexpr int64_t one = int64_t{1} << 32;
  const int64_t logSquare =
      fixedLog2((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52) + (exponent - 1075) * one;
  const int64_t minusLogU = 33 * one - fixedLog2(2 * uint64_t{draw} + 1); // at least 1 unit
  const int64_t score = (3 * logSquare >> 1) - (fixedLog2(static_cast<uint64_t>(minusLogU)) - 32 * one);
  return static_cast<uint32_t>(std::clamp<int64_t>((score + 512 * one) >> 10, 1, (int64_t{1} << 32) - 2));
}

} // namespace sluice
