// A pseudorandom permutation of 0 .. size-1 that is computed, not stored: any position in constant time.
#pragma once

#include "runtime/support/Philox.h"

#include <cstdint>
#include <string_view>

namespace sluice {

/// A balanced Feistel network of 8 rounds over the smallest even number of bits that holds `size` (at least 8
/// bits), with Philox as the round function; values beyond `size` are walked on until they fall inside
/// (cycle walking: Black and Rogaway 2002, "Ciphers with arbitrary finite domains"; at most 4 steps on
/// average, or 256 / size for sizes below 64). The same (size, seed, name, step) is the same permutation
/// everywhere.
class Permutation {
public:
  /// `name` keys the stream, `step` gives fresh permutations of it (an epoch, say). size >= 1.
  Permutation(uint64_t size, uint64_t seed, std::string_view name, uint64_t step = 0);
  /// The value at `position` < size.
  uint64_t operator[](uint64_t position) const;

private:
  uint64_t size;
  int halfBits;
  PhiloxStream random;
};

} // namespace sluice
