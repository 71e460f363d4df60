// Rates against the formulas of Schedule.h, worked out by hand.
#include "runtime/train/Schedule.h"

#include <cmath>
#include <gtest/gtest.h>

namespace sluice {
namespace {

Schedule make(ScheduleOptions options, int64_t steps, double peak = 1.0, int64_t batchTokens = 1000) {
  return *Schedule::create(options, peak, steps, batchTokens);
}

ScheduleOptions of(ScheduleKind kind, Warmup warmup, double floor = 0.1) {
  ScheduleOptions options;
  options.kind = kind;
  options.warmup = warmup;
  options.floor = floor;
  return options;
}

const Warmup none{Warmup::Kind::Tokens, 0};

TEST(Schedule, WarmupForms) {
  EXPECT_EQ(make(of(ScheduleKind::Constant, {Warmup::Kind::Tokens, 2500}), 100).warmupSteps(), 3);
  EXPECT_EQ(make(of(ScheduleKind::Constant, {Warmup::Kind::Fraction, 0.02}), 1000).warmupSteps(), 20);
  // clip(0.01 N, 200, 2000), and never beyond the horizon.
  EXPECT_EQ(make(of(ScheduleKind::Constant, {Warmup::Kind::Clip, 0}), 50).warmupSteps(), 50);
  EXPECT_EQ(make(of(ScheduleKind::Constant, {Warmup::Kind::Clip, 0}), 5000).warmupSteps(), 200);
  EXPECT_EQ(make(of(ScheduleKind::Constant, {Warmup::Kind::Clip, 0}), 50000).warmupSteps(), 500);
  EXPECT_EQ(make(of(ScheduleKind::Constant, {Warmup::Kind::Clip, 0}), 1000000).warmupSteps(), 2000);
  Schedule schedule = make(of(ScheduleKind::Constant, {Warmup::Kind::Tokens, 4000}), 10, 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.125);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 0.375);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(5), 0.5);
}

TEST(Schedule, Cosine) {
  Schedule schedule = make(of(ScheduleKind::Cosine, {Warmup::Kind::Tokens, 20000}), 120, 2e-3);
  EXPECT_DOUBLE_EQ(schedule.rate(20), 2e-3);
  EXPECT_DOUBLE_EQ(schedule.rate(70), (2e-3 + 2e-4) / 2);                          // half way: cos = 0
  EXPECT_NEAR(schedule.rate(45), 2e-4 + 1.8e-3 * (1 + std::sqrt(0.5)) / 2, 1e-15); // cos(pi / 4)
  EXPECT_DOUBLE_EQ(schedule.rate(120), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.rate(121), schedule.rate(120));
}

TEST(Schedule, LinearAndAbsoluteFloor) {
  ScheduleOptions options = of(ScheduleKind::Linear, none, 0.25);
  options.floorAbsolute = true;
  Schedule schedule = make(options, 4, 1.25);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(2), 0.75);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 0.25);
}

TEST(Schedule, WarmupStableDecay) {
  ScheduleOptions options = of(ScheduleKind::WarmupStableDecay, {Warmup::Kind::Tokens, 10000}, 0.0);
  options.decay = 0.2;
  Schedule root = make(options, 100);
  EXPECT_DOUBLE_EQ(root.rate(5), 0.5);
  EXPECT_DOUBLE_EQ(root.rate(80), 1.0);
  EXPECT_DOUBLE_EQ(root.rate(85), 0.5); // 1 - sqrt(5 / 20)
  EXPECT_DOUBLE_EQ(root.rate(100), 0.0);
  options.decayShape = DecayShape::Linear;
  Schedule line = make(options, 100);
  EXPECT_DOUBLE_EQ(line.rate(80), 1.0);
  EXPECT_DOUBLE_EQ(line.rate(85), 0.75);
  EXPECT_DOUBLE_EQ(line.rate(100), 0.0);
}

TEST(Schedule, RefusesWhatHasNoMeaning) {
  ScheduleOptions options;
  EXPECT_EQ(exitCode(Schedule::create(options, 0, 10, 10).status()), ExitCode::Usage);
  EXPECT_EQ(exitCode(Schedule::create(options, std::nan(""), 10, 10).status()), ExitCode::Usage);
  EXPECT_EQ(exitCode(Schedule::create(options, 1, 0, 10).status()), ExitCode::Usage);
  options.floor = 1.5;
  EXPECT_EQ(exitCode(Schedule::create(options, 1, 10, 10).status()), ExitCode::Usage);
  options = of(ScheduleKind::Cosine, {Warmup::Kind::Fraction, 1.5});
  EXPECT_EQ(exitCode(Schedule::create(options, 1, 10, 10).status()), ExitCode::Usage);
}

} // namespace
} // namespace sluice
