// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3"), through Random123. A draw is a pure function of (seed, stream, step, element), so it does not depend
// on layout, thread count or what was drawn before; the same generator runs in device code.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// The 64-bit key of a named stream, e.g. a parameter's name or "data/epoch".
uint64_t streamKey(std::string_view name);

/// One independent stream of draws. `element` indexes the draw.
class PhiloxStream {
public:
  /// `seed` is the user's; `stream` is streamKey(name); `step` separates uses of a stream in time.
  PhiloxStream(uint64_t seed, uint64_t stream, uint64_t step = 0) : seed(seed), stream(stream), step(step) {}
  /// 32 uniformly random bits of draw `element`.
  uint32_t bits(uint64_t element) const;
  /// Uniform in [0, 1), 32 random bits.
  double uniform(uint64_t element) const { return bits(element) * 0x1p-32; }
  /// Standard normal by Box-Muller in double precision: elements 2i and 2i+1 share one Philox block.
  double normal(uint64_t element) const;
  /// Uniform integer in [0, bound), without modulo bias beyond 2^-32 (Lemire's multiply-shift); bound > 0.
  uint64_t below(uint64_t bound, uint64_t element) const;

private:
  uint64_t seed, stream, step;
};

} // namespace sluice
