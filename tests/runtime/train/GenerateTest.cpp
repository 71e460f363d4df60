// Drawing a token: greedy, ties, and the inverse of the cumulative distribution.
#include "runtime/train/Generate.h"

#include <cmath>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(SampleToken, ZeroTemperatureTakesTheLowestOfTheLargest) {
  EXPECT_EQ(*sampleToken({0, 3, 1, 3}, 0, 0.999), 1);
  EXPECT_EQ(*sampleToken({-INFINITY, -5}, 0, 0), 1);
}

TEST(SampleToken, InvertsTheDistribution) {
  // Probabilities 0.2, 0.5, 0.3 in index order.
  std::vector<float> logits = {std::log(2.f), std::log(5.f), std::log(3.f)};
  EXPECT_EQ(*sampleToken(logits, 1, 0.0), 0);
  EXPECT_EQ(*sampleToken(logits, 1, 0.19), 0);
  EXPECT_EQ(*sampleToken(logits, 1, 0.21), 1);
  EXPECT_EQ(*sampleToken(logits, 1, 0.69), 1);
  EXPECT_EQ(*sampleToken(logits, 1, 0.71), 2);
  EXPECT_EQ(*sampleToken(logits, 1, 0.999999), 2);
  // Temperature 0.5 squares them: 4/38, 25/38, 9/38.
  EXPECT_EQ(*sampleToken(logits, 0.5, 0.104), 0);
  EXPECT_EQ(*sampleToken(logits, 0.5, 0.107), 1);
  EXPECT_EQ(*sampleToken(logits, 0.5, 0.762), 1);
  EXPECT_EQ(*sampleToken(logits, 0.5, 0.764), 2);
}

TEST(SampleToken, AnImpossibleTokenIsNeverDrawn) {
  for (double uniform : {0.0, 0.5, 0.9999999})
    EXPECT_EQ(*sampleToken({-INFINITY, 1, -INFINITY}, 1, uniform), 1);
}

TEST(SampleToken, RefusesNotANumber) {
  EXPECT_EQ(exitCode(sampleToken({0, NAN}, 1, 0.5).status()), ExitCode::Diverged);
}

} // namespace
} // namespace sluice
