// The products that skip the zeros of a masked weight against plain loops in double.
#include "runtime/device/cpu/SparseProduct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace sluice::cpu {
namespace {

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
std::unique_ptr<void, Free> scratchOf(uint64_t bytes) {
  return std::unique_ptr<void, Free>(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
}

/// A weight [outputs, inputs], its mask, and tokens that it multiplies.
struct Problem {
  int64_t outputs, inputs, tokens;
  std::vector<uint64_t> mask;
  std::vector<float> weight, x, dy;
  int64_t kept = 0;
  int64_t blockRows, blockColumns; // kept together

  Problem(int64_t outputs, int64_t inputs, int64_t tokens, double density, int64_t blockRows = 1,
          int64_t blockColumns = 1)
      : outputs(outputs), inputs(inputs), tokens(tokens),
        mask(static_cast<size_t>(outputs * inputs + 63) / 64, 0), blockRows(blockRows),
        blockColumns(blockColumns) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<double> uniform;
    const int64_t blockCount = outputs / blockRows * (inputs / blockColumns);
    std::vector<bool> blocks;
    blocks.reserve(static_cast<size_t>(blockCount));
    for (int64_t i = 0; i < blockCount; ++i)
      blocks.push_back(uniform(random) < density);
    for (int64_t i = 0; i < outputs * inputs; ++i) {
      const int64_t block = i / inputs / blockRows * (inputs / blockColumns) + i % inputs / blockColumns;
      const bool isKept = blocks[static_cast<size_t>(block)];
      // What stands at a masked place must not be read.
      weight.push_back(isKept ? normal(random) : std::nanf(""));
      if (isKept)
        mask[static_cast<size_t>(i / 64)] |= uint64_t{1} << (i % 64), ++kept;
    }
    for (int64_t i = 0; i < tokens * inputs; ++i)
      x.push_back(normal(random));
    for (int64_t i = 0; i < tokens * outputs; ++i)
      dy.push_back(normal(random));
  }
  bool isKept(int64_t output, int64_t input) const {
    const int64_t place = output * inputs + input;
    return mask[static_cast<size_t>(place / 64)] >> (place % 64) & 1;
  }
  /// The matrix from inputs to outputs, or the transposed one.
  SparseMatrix matrix(bool transposed) const {
    SparseMatrix result = transposed
                              ? SparseMatrix(inputs, outputs, kept, SparseMatrix::heightFor(blockColumns))
                              : SparseMatrix(outputs, inputs, kept, SparseMatrix::heightFor(blockRows));
    result.build(mask.data(), 0, transposed);
    result.refresh(weight.data());
    return result;
  }
};

/// Panel by panel, as a device does.
void multiply(const SparseMatrix &weight, int64_t tokens, const std::vector<float> &x, std::vector<float> &y,
              bool accumulate = false) {
  auto scratch = scratchOf(sparseProductScratchBytes(weight));
  for (int64_t token = 0; token < tokens; token += sparsePanelTokens())
    sparsePanelProduct(weight, std::min(sparsePanelTokens(), tokens - token),
                       x.data() + token * weight.inputs(), weight.inputs(),
                       y.data() + token * weight.outputs(), weight.outputs(), accumulate, scratch.get());
}

struct Case {
  int64_t outputs, inputs, tokens;
  double density;
  int64_t blockRows = 1, blockColumns = 1;
};
class SparseProducts : public testing::TestWithParam<Case> {};

TEST_P(SparseProducts, AgreeWithPlainLoops) {
  const auto [outputs, inputs, tokens, density, blockRows, blockColumns] = GetParam();
  const Problem problem(outputs, inputs, tokens, density, blockRows, blockColumns);
  const SparseMatrix forward = problem.matrix(false), backward = problem.matrix(true);
  ASSERT_EQ(forward.kept(), problem.kept);
  ASSERT_EQ(backward.kept(), problem.kept);

  std::vector<float> y(static_cast<size_t>(tokens * outputs), 77),
      dx(static_cast<size_t>(tokens * inputs), 77);
  multiply(forward, tokens, problem.x, y);
  multiply(backward, tokens, problem.dy, dx);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < inputs; ++i)
        if (problem.isKept(o, i)) {
          const double product = double(problem.weight[o * inputs + i]) * problem.x[t * inputs + i];
          sum += product, size += std::abs(product);
        }
      ASSERT_NEAR(y[t * outputs + o], sum, 1e-6 * size) << t << " " << o;
    }
    for (int64_t i = 0; i < inputs; ++i) {
      double sum = 0, size = 0;
      for (int64_t o = 0; o < outputs; ++o)
        if (problem.isKept(o, i)) {
          const double product = double(problem.weight[o * inputs + i]) * problem.dy[t * outputs + o];
          sum += product, size += std::abs(product);
        }
      ASSERT_NEAR(dx[t * inputs + i], sum, 1e-6 * size) << t << " " << i;
    }
  }

  std::vector<float> sums(static_cast<size_t>(problem.kept), 77);
  auto scratch = scratchOf(sparseGradientScratchBytes(forward));
  sparseWeightGradient(forward, tokens, problem.x.data(), inputs, problem.dy.data(), outputs, sums.data(),
                       scratch.get());
  std::set<uint32_t> places;
  for (int64_t k = 0; k < problem.kept; ++k) {
    const int64_t place = forward.places()[k], o = place / inputs, i = place % inputs;
    EXPECT_TRUE(problem.isKept(o, i) && places.insert(forward.places()[k]).second);
    double sum = 0, size = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      const double product = double(problem.dy[t * outputs + o]) * problem.x[t * inputs + i];
      sum += product, size += std::abs(product);
    }
    ASSERT_NEAR(sums[k], sum, 1e-6 * size) << o << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SparseProducts,
                         testing::Values(Case{1, 1, 1, 1.0}, Case{3, 5, 2, 0.0}, Case{7, 13, 65, 0.5},
                                         Case{64, 64, 64, 0.1}, Case{130, 67, 129, 0.25},
                                         Case{513, 70, 70, 0.1}, Case{9, 1100, 33, 0.05},
                                         Case{20, 30, 3, 1.0}));
INSTANTIATE_TEST_SUITE_P(Blocks, SparseProducts,
                         testing::Values(Case{64, 96, 130, 0.3, 16, 16}, Case{12, 30, 65, 0.5, 4, 3},
                                         Case{18, 140, 70, 0.4, 6, 7}, Case{1028, 72, 129, 0.2, 4, 8},
                                         Case{10, 9, 3, 1.0, 2, 1}, Case{9, 20, 64, 0.5, 3, 2},
                                         Case{4, 4, 1, 1.0, 4, 4}, Case{8, 8, 5, 0.0, 4, 4}));

TEST(SparseMatrixTest, HeightsFollowTheBlocks) {
  EXPECT_EQ(SparseMatrix::heightFor(1), 1);
  EXPECT_EQ(SparseMatrix::heightFor(6), 2);
  EXPECT_EQ(SparseMatrix::heightFor(16), 4);
  const Problem blocks(16, 24, 1, 0.5, 8, 6);
  EXPECT_EQ(blocks.matrix(false).height(), 4);
  EXPECT_EQ(blocks.matrix(true).height(), 2);
}

TEST(SparseMatrixTest, EntriesThatAreKeptInPartAreLeftOut) {
  // No mask of blocks looks like this; one from a damaged file may.
  SparseMatrix matrix(4, 3, 12, 4);
  std::vector<uint64_t> mask(1, 0b111'011'111'101); // column 0 of all rows; the others miss one each
  matrix.build(mask.data(), 0, false);
  EXPECT_EQ(matrix.kept(), 4);
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_EQ(matrix.places()[row], 3 * row);
}

TEST(SparseMatrixTest, ASumAddsTheInputsInAscendingOrder) {
  // Sums of this order lose the small numbers; any other keeps some of them.
  SparseMatrix matrix(1, 200, 200);
  std::vector<uint64_t> mask(4, ~uint64_t{0});
  std::vector<float> weight(200, 1.0f), x(200, 1.0f), y(1);
  x[0] = 0x1p24f;
  matrix.build(mask.data(), 0, false);
  matrix.refresh(weight.data());
  multiply(matrix, 1, x, y);
  EXPECT_EQ(y[0], 0x1p24f);
}

TEST(SparseMatrixTest, AccumulatingStartsFromWhatIsThere) {
  const Problem problem(70, 90, 67, 0.2);
  const SparseMatrix matrix = problem.matrix(false);
  std::vector<float> alone(67 * 70), sum = problem.dy;
  multiply(matrix, 67, problem.x, alone);
  multiply(matrix, 67, problem.x, sum, /*accumulate=*/true);
  for (size_t i = 0; i < sum.size(); ++i)
    ASSERT_NEAR(sum[i], double(alone[i]) + problem.dy[i], 1e-5) << i;
}

TEST(SparseMatrixTest, ANewMaskAllocatesNothingWithinItsRoom) {
  const Problem one(40, 90, 1, 0.3), other(40, 90, 1, 0.1);
  SparseMatrix matrix(40, 90, one.kept);
  matrix.build(one.mask.data(), 0, false);
  const float *values = matrix.values();
  std::vector<uint64_t> mask = one.mask;
  // Another mask with as many entries: every row rotated.
  std::rotate(mask.begin(), mask.begin() + 3, mask.end());
  int64_t kept = 0;
  for (uint64_t word : mask)
    kept += std::popcount(word);
  ASSERT_EQ(kept, one.kept);
  matrix.build(mask.data(), 0, false);
  EXPECT_EQ(matrix.values(), values);
  matrix.build(other.mask.data(), 0, false);
  EXPECT_EQ(matrix.values(), values);
  EXPECT_EQ(matrix.kept(), other.kept);
}

TEST(SparseMatrixTest, AMaskWithTooManyBitsStaysWithinItsRoom) {
  const Problem problem(20, 30, 1, 0.5);
  SparseMatrix matrix(20, 30, 7);
  matrix.build(problem.mask.data(), 0, false);
  EXPECT_EQ(matrix.kept(), 7);
}

} // namespace
} // namespace sluice::cpu
