#include "runtime/data/Permutation.h"

#include <algorithm>
#include <bit>

namespace sluice {

Permutation::Permutation(uint64_t size, uint64_t seed, std::string_view name, uint64_t step)
    : size(size), halfBits(std::max(4, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)),
      random(seed, streamKey(name), step) {}

uint64_t Permutation::operator[](uint64_t position) const {
  constexpr int rounds = 8;
  const uint64_t mask = (uint64_t{1} << halfBits) - 1;
  do {
    uint64_t left = position >> halfBits, right = position & mask;
    for (uint64_t round = 0; round < rounds; ++round) {
      // bits() takes four draws from each Philox block; a block of its own for every (right, round).
      uint64_t mixed = left ^ (random.bits(4 * (right * rounds + round)) & mask);
      left = right;
      right = mixed;
    }
    position = left << halfBits | right;
  } while (position >= size);
  return position;
}

} // namespace sluice
