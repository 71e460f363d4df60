// The computed permutation: a bijection for every size, fresh by seed, step and name, without visible bias.
#include "runtime/data/Permutation.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace sluice {
namespace {

std::vector<uint64_t> values(const Permutation &permutation, uint64_t size) {
  std::vector<uint64_t> result(size);
  for (uint64_t i = 0; i < size; ++i)
    result[i] = permutation[i];
  return result;
}

TEST(Permutation, IsABijection) {
  for (uint64_t size : {1, 2, 3, 7, 16, 17, 255, 256, 257, 1000, 4097, 65537}) {
    auto found = values(Permutation(size, 5, "test"), size);
    std::sort(found.begin(), found.end());
    std::vector<uint64_t> all(size);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(found, all) << size;
  }
}

TEST(Permutation, HugeSizesStayInside) {
  const uint64_t size = (uint64_t{1} << 62) + 12345;
  Permutation permutation(size, 1, "test");
  for (uint64_t position : {uint64_t{0}, uint64_t{1}, size / 2, size - 1})
    EXPECT_LT(permutation[position], size);
  EXPECT_NE(permutation[0], permutation[1]);
}

TEST(Permutation, SeedStepAndNameMatter) {
  auto base = values(Permutation(100, 1, "a", 0), 100);
  EXPECT_EQ(values(Permutation(100, 1, "a", 0), 100), base);
  EXPECT_NE(values(Permutation(100, 2, "a", 0), 100), base);
  EXPECT_NE(values(Permutation(100, 1, "a", 1), 100), base);
  EXPECT_NE(values(Permutation(100, 1, "b", 0), 100), base);
}

TEST(Permutation, SmallSizesAreUniform) {
  // Where does each value land, over many steps? Every cell expects trials / size; chi-square over size^2
  // cells has (size - 1)^2 degrees of freedom, and stays below mean + 6 standard deviations (sqrt(2 df)).
  for (uint64_t size : {2, 3, 5, 10}) {
    const uint64_t trials = 4000;
    std::vector<double> counts(size * size);
    for (uint64_t step = 0; step < trials; ++step) {
      Permutation permutation(size, 11, "test", step);
      for (uint64_t position = 0; position < size; ++position)
        counts[position * size + permutation[position]] += 1;
    }
    double expected = static_cast<double>(trials) / static_cast<double>(size), chiSquare = 0;
    for (double count : counts)
      chiSquare += (count - expected) * (count - expected) / expected;
    double freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(chiSquare, freedom + 6 * std::sqrt(2 * freedom)) << size;
  }
}

} // namespace
} // namespace sluice
