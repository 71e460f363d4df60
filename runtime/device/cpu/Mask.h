// The bits of a mask on the CPU, and choosing the smallest of many keys in place.
#pragma once

#include "runtime/device/MaskArguments.h"
#include "runtime/device/cpu/Kernel.h"

#include <bit>
#include <cstring>

namespace sluice::cpu {

inline bool isKept(const uint8_t *bits, int64_t i) {
  return (bits[i >> 3] >> (i & 7) & 1) != 0;
}
inline void setKept(uint8_t *bits, int64_t i, bool kept) {
  const auto bit = static_cast<uint8_t>(1u << (i & 7));
  bits[i >> 3] = static_cast<uint8_t>(kept ? bits[i >> 3] | bit : bits[i >> 3] & ~bit);
}
/// 64 bits of the mask from weight `i`, a multiple of 64.
inline uint64_t maskWord(const uint8_t *bits, int64_t i) {
  uint64_t word;
  std::memcpy(&word, bits + i / 8, 8);
  return word;
}

/// Calls body(i) for the weights of [begin, end) that the mask keeps, ascending.
template <typename Body> void forEachKept(const uint8_t *bits, int64_t begin, int64_t end, Body body) {
  for (int64_t word = begin / 64 * 64; word < end; word += 64) {
    uint64_t kept = maskWord(bits, word);
    if (word < begin)
      kept &= ~uint64_t{0} << (begin - word);
    if (end - word < 64)
      kept &= (uint64_t{1} << (end - word)) - 1;
    for (; kept != 0; kept &= kept - 1)
      body(word + std::countr_zero(kept));
  }
}

/// Zeroes x[i] for begin <= i < end where the mask does not keep; `begin` is a multiple of 64.
inline void zeroDropped(const uint8_t *bits, int64_t begin, int64_t end, float *x) {
  for (int64_t i = begin; i < end; i += 64) {
    uint64_t dropped = ~maskWord(bits, i);
    if (end - i < 64)
      dropped &= (uint64_t{1} << (end - i)) - 1;
    if (dropped == ~uint64_t{0}) {
      std::fill_n(x + i, 64, 0.0f);
      continue;
    }
    for (; dropped != 0; dropped &= dropped - 1)
      x[i + std::countr_zero(dropped)] = 0.0f;
  }
}

} // namespace sluice::cpu
