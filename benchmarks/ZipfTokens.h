// Token ids with a Zipf-like distribution, so that embedding and routing see realistic skew.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::benchmarks {

/// `count` ids in [0, vocabulary): floor(vocabulary^u) - 1 with u uniform, drawn from Philox stream `seed`.
std::vector<int32_t> zipfTokens(int64_t count, int64_t vocabulary, uint64_t seed);

} // namespace sluice::benchmarks
