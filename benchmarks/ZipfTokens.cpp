#include "benchmarks/ZipfTokens.h"

#include "runtime/support/Philox.h"

#include <algorithm>
#include <cmath>

namespace sluice::benchmarks {

std::vector<int32_t> zipfTokens(int64_t count, int64_t vocabulary, uint64_t seed) {
  PhiloxStream random(seed, streamKey("benchmark/tokens"));
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    double value = std::pow(static_cast<double>(vocabulary), random.uniform(static_cast<uint64_t>(i))) - 1;
    ids[static_cast<size_t>(i)] =
        static_cast<int32_t>(std::clamp(value, 0.0, static_cast<double>(vocabulary - 1)));
  }
  return ids;
}

} // namespace sluice::benchmarks
