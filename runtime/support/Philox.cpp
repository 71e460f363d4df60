#include "runtime/support/Philox.h"

#include "runtime/support/Hash.h"

#include <Random123/philox.h>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

/// Block `index` of the stream: counter = (index, step), key = seed mixed with the stream's key.
r123::Philox4x32::ctr_type block(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index) {
  uint64_t key = seed * 0x9E3779B97F4A7C15ull ^ stream;
  return r123::Philox4x32()({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                              static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)}},
                            {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}});
}

} // namespace

uint64_t streamKey(std::string_view name) {
  return xxhash64(name);
}

uint32_t PhiloxStream::bits(uint64_t element) const {
  return block(seed, stream, step, element / 4)[element % 4];
}

double PhiloxStream::normal(uint64_t element) const {
  auto words = block(seed, stream, step, element / 2);
  // u in (0, 1], so that log(u) is finite; 32 bits each for radius and angle.
  double u = (words[0] + 1.0) * 0x1p-32;
  double angle = 2.0 * std::numbers::pi * (words[1] * 0x1p-32);
  double radius = std::sqrt(-2.0 * std::log(u));
  return element % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

uint64_t PhiloxStream::below(uint64_t bound, uint64_t element) const {
  auto words = block(seed, stream, step, element);
  uint64_t random = (static_cast<uint64_t>(words[1]) << 32) | words[0];
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

} // namespace sluice
