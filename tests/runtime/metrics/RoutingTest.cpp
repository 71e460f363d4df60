// Routing diagnostics against closed forms.
#include "runtime/metrics/Routing.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace sluice;

namespace {

RoutingStatistics withCounts(std::vector<double> counts) {
  RoutingStatistics statistics;
  statistics.counts = std::move(counts);
  return statistics;
}

TEST(Routing, UniformLoad) {
  RoutingDiagnostics d = diagnoseRouting(withCounts({25, 25, 25, 25}), 2);
  EXPECT_EQ(d.load, std::vector<double>(4, 0.25));
  EXPECT_EQ(d.mostLoadedFraction, 0.25);
  EXPECT_EQ(d.coefficientOfVariation, 0);
  EXPECT_EQ(d.maxViolation, 0);
  EXPECT_DOUBLE_EQ(d.loadEntropy, std::log(4.0));
  EXPECT_DOUBLE_EQ(d.normalizedLoadEntropy, 1);
  EXPECT_EQ(d.deadExperts, 0);
  EXPECT_FALSE(d.collapsed);
}

TEST(Routing, FullCollapse) {
  // All E assignments of E experts on one: std = sqrt(E - 1) x mean, MaxVio = E - 1, entropy 0.
  RoutingDiagnostics top1 = diagnoseRouting(withCounts({0, 0, 80, 0}), 1);
  EXPECT_EQ(top1.mostLoadedFraction, 1);
  EXPECT_EQ(top1.mostLoadedExpert, 2);
  EXPECT_DOUBLE_EQ(top1.coefficientOfVariation, std::sqrt(3.0));
  EXPECT_EQ(top1.maxViolation, 3);
  EXPECT_EQ(top1.loadEntropy, 0);
  EXPECT_EQ(top1.deadExperts, 3);
  EXPECT_TRUE(top1.collapsed);

  RoutingDiagnostics top2 = diagnoseRouting(withCounts({40, 40, 0, 0}), 2);
  EXPECT_EQ(top2.mostLoadedFraction, 0.5);
  EXPECT_DOUBLE_EQ(top2.coefficientOfVariation, 1);
  EXPECT_DOUBLE_EQ(top2.loadEntropy, std::log(2.0));
  EXPECT_DOUBLE_EQ(top2.normalizedLoadEntropy, 0.5);
  EXPECT_EQ(top2.maxViolation, 1);
  EXPECT_EQ(top2.deadExperts, 2);
  EXPECT_TRUE(top2.collapsed);
  EXPECT_EQ(top2.mostLoadedExpert, 0);
}

TEST(Routing, HandComputedLoad) {
  // counts 1, 2, 3, 6: mean 3, deviations -2, -1, 0, 3, variance 14 / 4.
  RoutingDiagnostics d = diagnoseRouting(withCounts({1, 2, 3, 6}), 1);
  EXPECT_EQ(d.mostLoadedFraction, 0.5);
  EXPECT_EQ(d.mostLoadedExpert, 3);
  EXPECT_DOUBLE_EQ(d.coefficientOfVariation, std::sqrt(3.5) / 3);
  EXPECT_EQ(d.maxViolation, 1);
  EXPECT_NEAR(d.loadEntropy, std::log(12.0) / 12 + std::log(6.0) / 6 + std::log(4.0) / 4 + std::log(2.0) / 2,
              1e-15);
}

TEST(Routing, CollapseStartsAtNineTenthsOfTheMost) {
  // Top-1 of 4: 900 of 1000; top-2 of 4: 450 of 1000 (one expert can get 500).
  EXPECT_TRUE(diagnoseRouting(withCounts({900, 50, 50, 0}), 1).collapsed);
  EXPECT_FALSE(diagnoseRouting(withCounts({899, 51, 50, 0}), 1).collapsed);
  EXPECT_TRUE(diagnoseRouting(withCounts({450, 200, 200, 150}), 2).collapsed);
  EXPECT_FALSE(diagnoseRouting(withCounts({449, 201, 200, 150}), 2).collapsed);
  // K = E: every expert always gets the most it can get.
  EXPECT_FALSE(diagnoseRouting(withCounts({50, 50}), 2).collapsed);
  EXPECT_FALSE(diagnoseRouting(withCounts({50}), 1).collapsed);
}

TEST(Routing, TokenMeansComeFromTheDeviceSums) {
  // Eight tokens of a uniform router with logits 0: entropy ln 4, logsumexp ln 4, largest probability 1/4.
  const float log4 = std::log(4.0f);
  std::vector<float> device = {4, 4, 4, 4, 8 * log4, 8 * log4, 2, 8};
  RoutingStatistics one = RoutingStatistics::fromDevice(device);
  EXPECT_EQ(one.counts.size(), 4u);
  RoutingDiagnostics d = diagnoseRouting(one, 2);
  EXPECT_NEAR(d.routerEntropy, std::log(4.0), 1e-6);
  EXPECT_NEAR(d.normalizedRouterEntropy, 1, 1e-6);
  EXPECT_NEAR(d.meanLogZ, std::log(4.0), 1e-6);
  EXPECT_EQ(d.meanMaxProbability, 0.25);

  // Intervals add: the same again, but four tokens on two experts with logsumexp 10.
  RoutingStatistics sum;
  sum.add(one);
  sum.add(RoutingStatistics::fromDevice(std::vector<float>{4, 4, 0, 0, 0, 40, 4, 4}));
  d = diagnoseRouting(sum, 2);
  EXPECT_EQ(d.load, (std::vector<double>{8.0 / 24, 8.0 / 24, 4.0 / 24, 4.0 / 24}));
  EXPECT_NEAR(d.meanLogZ, (8 * std::log(4.0) + 40) / 12, 1e-6);
  EXPECT_NEAR(d.routerEntropy, 8 * std::log(4.0) / 12, 1e-6);
  EXPECT_EQ(d.meanMaxProbability, 0.5);
}

TEST(Routing, NoTokensJudgeNothing) {
  RoutingDiagnostics d = diagnoseRouting(RoutingStatistics(4), 2);
  EXPECT_EQ(d.load, std::vector<double>(4, 0));
  EXPECT_EQ(d.deadExperts, 0);
  EXPECT_FALSE(d.collapsed);
  EXPECT_EQ(d.coefficientOfVariation, 0);
  EXPECT_TRUE(RoutingStatistics::fromDevice({}).counts.empty());
}

TEST(Routing, OneExpertIsEven) {
  RoutingDiagnostics d = diagnoseRouting(withCounts({7}), 1);
  EXPECT_EQ(d.normalizedLoadEntropy, 1);
  EXPECT_EQ(d.mostLoadedFraction, 1);
}

TEST(Routing, JsonAndMessage) {
  RoutingDiagnostics d = diagnoseRouting(withCounts({492, 8, 250, 250}), 2);
  nlohmann::ordered_json json = toJson(d);
  EXPECT_EQ(json["most_loaded_fraction"], 0.492);
  EXPECT_EQ(json["collapsed"], true);
  EXPECT_EQ(json["load"].size(), 4u);
  EXPECT_EQ(collapseMessage("layers.1.moe", d, 2), "layers.1.moe: the router collapsed: expert 0 takes 49.2% "
                                                   "of the assignments (uniform 25.0%, at most 50.0% "
                                                   "with top-2)");
}

TEST(CollapseWatch, NamesWhatLasts) {
  CollapseWatch watch;
  for (int interval = 0; interval < 20; ++interval)
    EXPECT_FALSE(watch.observe("a", true, /*warmup=*/true)) << interval;
  for (int interval = 1; interval <= 6; ++interval)
    EXPECT_EQ(watch.observe("a", true, false), interval >= collapseIntervals) << interval;
  // Layers apart, and a healthy interval starts the count anew.
  EXPECT_FALSE(watch.observe("b", true, false));
  EXPECT_FALSE(watch.observe("b", true, false));
  EXPECT_FALSE(watch.observe("b", false, false));
  EXPECT_FALSE(watch.observe("b", true, false));
}

} // namespace
