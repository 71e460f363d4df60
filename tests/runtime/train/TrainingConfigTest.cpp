// The training section: what is read, what is refused.
#include "runtime/train/TrainingConfig.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(TrainingConfig, ReadsEveryKey) {
  StatusOr<TrainingConfig> config = readTrainingConfig(R"({
    "batch_tokens": 2048, "tokens": "1M", "lr": 2e-3, "seed": 3,
    "optimizer": {"kind": "adamw", "beta1": 0.9}, "losses": {"balance": 0.01, "router_z": 0.001},
    "schedule": {"kind": "wsd", "warmup": "2%", "floor": 1e-5, "floor_kind": "absolute", "decay": 0.1,
                 "decay_shape": "linear"},
    "data": {"mode": "document", "unique_tokens": "250_000", "seed": 9, "reshuffle": false},
    "evaluation": {"every_tokens": 50000, "at_tokens": [1000, "2K"], "windows": 64},
    "checkpoint": {"every_steps": 20, "keep": 4}, "log": {"every_steps": 1}})",
                                                       {});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->batchTokens, 2048);
  EXPECT_EQ(config->tokens, 1000000);
  EXPECT_EQ(config->stepsFor(config->tokens), 489); // ceil(1e6 / 2048)
  EXPECT_EQ(config->seed, 3);
  EXPECT_EQ(config->schedule.kind, ScheduleKind::WarmupStableDecay);
  EXPECT_EQ(config->schedule.warmup.kind, Warmup::Kind::Fraction);
  EXPECT_DOUBLE_EQ(config->schedule.warmup.amount, 0.02);
  EXPECT_TRUE(config->schedule.floorAbsolute);
  EXPECT_EQ(config->schedule.decayShape, DecayShape::Linear);
  EXPECT_EQ(config->mode, WindowMode::Document);
  EXPECT_EQ(config->uniqueTokens, 250000u);
  EXPECT_EQ(config->dataSeed, 9u);
  EXPECT_FALSE(config->reshuffle);
  EXPECT_EQ(config->evaluateAtTokens, (std::vector<int64_t>{1000, 2000}));
  EXPECT_EQ(config->keepCheckpoints, 4);
  EXPECT_EQ(config->logEverySteps, 1);
  ASSERT_EQ(config->lossWeights.size(), 2u);
  // What is resolved is a training section again, with the same meaning.
  StatusOr<TrainingConfig> again = readTrainingConfig(config->resolved.dump(), {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->resolved, config->resolved);
}

TEST(TrainingConfig, TheCommandLineWins) {
  TrainingOverrides overrides;
  overrides.tokens = 5000;
  overrides.seed = 11;
  overrides.settings = {"train.lr=3e-4", "schedule.kind=linear", "data.seed=4", "log.every_steps=2"};
  StatusOr<TrainingConfig> config =
      readTrainingConfig(R"({"batch_tokens": 100, "lr": 1, "tokens": 100})", overrides);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->tokens, 5000);
  EXPECT_EQ(config->seed, 11);
  EXPECT_EQ(config->learningRate, 3e-4);
  EXPECT_EQ(config->schedule.kind, ScheduleKind::Linear);
  EXPECT_EQ(config->dataSeed, 4u);
  EXPECT_EQ(config->logEverySteps, 2);
}

TEST(TrainingConfig, RefusesAndNamesTheKey) {
  const std::pair<const char *, const char *> bad[] = {
      {R"({"batch_tokens": 1, "lr": 1, "tokens": 5, "data": {"unique_tokens": 9, "unique_windows": 2}})",
       "data.unique_windows"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "schedul": {}})", "did you mean 'schedule'?"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "schedule": {"warmpu": 3}})", "did you mean 'warmup'?"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "schedule": {"kind": "cos"}})",
       "schedule.kind: expected one of"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "schedule": {"floor": 2}})", "schedule.floor"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "schedule": 3})", "schedule: expected an object"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": "fast"})", "train.lr: expected a number"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": -1})", "train.lr"},
      {R"({"batch_tokens": 1, "lr": 1})", "give --tokens"},
      {R"({"tokens": 1, "lr": 1})", "train.batch_tokens"},
      {R"({"batch_tokens": 1.5, "tokens": 1, "lr": 1})", "train.batch_tokens"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "data": {"mode": "lines"}})", "data.mode"},
      {R"({"batch_tokens": 1, "tokens": 1, "lr": 1, "checkpoint": {"keep": 0}})", "checkpoint.keep"},
      {"", "no training section"},
  };
  for (auto [text, part] : bad) {
    Status status = readTrainingConfig(text, {}).status();
    EXPECT_EQ(exitCode(status), ExitCode::Usage) << text;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status.message();
  }
  for (const char *setting :
       {"lr=1", "model.width=3", "optimizer.clip=2", "losses.balance=1", "train.lr", "train.=3"}) {
    TrainingOverrides overrides;
    overrides.settings = {setting};
    EXPECT_EQ(
        exitCode(readTrainingConfig(R"({"batch_tokens": 1, "tokens": 1, "lr": 1})", overrides).status()),
        ExitCode::Usage)
        << setting;
  }
}

} // namespace
} // namespace sluice
