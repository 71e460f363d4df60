// Records: weighted means, the objective, the collapse of a router, and where a continued file goes on.
#include "runtime/train/Records.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Records, LossPartsAreMeansOverTargets) {
  StepSums sums;
  sums.steps = 2;
  sums.nats = 30;
  sums.targets = 10;
  sums.auxiliary = {{"balance", "auxiliary/balance", 12}};
  CollapseWatch watch;
  std::vector<std::string> warnings;
  auto record = trainRecord({.step = 4}, sums, 1e-3, 100, {{"balance", 0.5}}, watch, warnings);
  EXPECT_EQ(record["loss"], 3.0);
  EXPECT_EQ(record["auxiliary"]["balance"], 1.2);
  EXPECT_DOUBLE_EQ(record["objective"].get<double>(), 3.6);
  EXPECT_FALSE(record.contains("routing"));
}

TEST(Records, NamesACollapsedRouter) {
  StepSums sums;
  sums.targets = 100;
  // Four experts, top-2, 100 tokens: one expert in every choice.
  sums.routing = {{"layers.0.moe", "routing/layers.0.moe", {100, 100, 0, 0, 10, 200, 90, 100}},
                  {"layers.1.moe", "routing/layers.1.moe", {50, 50, 50, 50, 130, 200, 30, 100}}};
  CollapseWatch watch;
  std::vector<std::string> warnings;
  // Neither the warmup nor a first interval proves anything.
  for (int64_t step = 1; step <= 4; ++step) {
    RecordPlace place{.step = step, .warmup = step <= 2};
    auto record = trainRecord(place, sums, 1e-3, 100, {}, watch, warnings);
    EXPECT_EQ(record["routing"]["layers.0.moe"]["collapsed"], true);
    EXPECT_TRUE(warnings.empty()) << "step " << step;
  }
  auto record = trainRecord({.step = 5}, sums, 1e-3, 100, {}, watch, warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("layers.0.moe"), 0u) << warnings[0];
  EXPECT_EQ(record["routing"].size(), 2u);
  EXPECT_EQ(record["warnings"].size(), 1u);
}

TEST(Records, MetricsGoOnAfterTheCheckpoint) {
  std::string header = "{\"schema\":\"s\",\"run_id\":\"r\"}\n", one = "{\"kind\":\"train\",\"step\":1}\n",
              two = "{\"kind\":\"train\",\"step\":2}\n", three = "{\"kind\":\"train\",\"step\":3}\n";
  EXPECT_EQ(metricsOffset(header + one + two + three, 2), (header + one + two).size());
  EXPECT_EQ(metricsOffset(header + one + two + three, 9), (header + one + two + three).size());
  EXPECT_EQ(metricsOffset(header + one + "{\"kind\":\"tr", 5), (header + one).size());
  EXPECT_EQ(metricsOffset("", 5), 0u);
}

} // namespace
} // namespace sluice
