// The section `sparsity` of a spec through the programs: every key acts, rules of their own for different
// weights, and the refusal of what makes no sense.
#include "tests/frontends/CommandLine.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <numbers>

namespace sluice {
namespace {

using nlohmann::json;
using CommandLineSparsityTest = CommandLine;

constexpr int64_t stepTokens = 128; // of 8 steps
const std::string quiet = " --data data --sample 0 --quiet --threads ";

/// Compiles and trains `section` (below `sparsity:`), and returns what `masks` says of it.
json trained(const std::string &name, const std::string &section) {
  struct World : CommandLine { // the fixture's programs and folder
    using CommandLine::good, CommandLine::read, CommandLine::write;
  };
  World::write(name + ".yaml", World::read("moe.yaml") + "sparsity:\n" + section);
  World::good("sluice compile " + name + ".yaml -o " + name + ".slx");
  World::good("sluice-run train " + name + ".slx --out " + name + quiet + "2");
  return json::parse(World::good("sluice masks " + name + " --json -").out, nullptr, false);
}

std::string weightsOf(const std::string &run) {
  return run + "/checkpoints/step-00000008/model.safetensors";
}

/// The share of kept weights that an update was asked to replace, by step.
std::map<int, double> sharesOf(const json &report) {
  std::map<int, double> shares;
  for (const json &update : report["updates"])
    shares[update["step"]] = update["share"];
  return shares;
}

TEST_F(CommandLineSparsityTest, EveryKeyOfAnUpdateActs) {
  const std::string set = "  targets: [attention]\n  density: 0.25\n  method: set\n";
  // Every, start, end, schedule and until: updates after steps 2 and 4 of the first five eighths.
  const json linear =
      trained("linear", set + "  update:\n    every: 2 steps\n    until: 0.625\n    fraction:\n"
                              "      start: 0.5\n      end: 0.1\n      schedule: linear\n");
  std::map<int, double> shares = sharesOf(linear);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares[2], 0.5 - 0.4 * 2 / 5, 1e-9);
  EXPECT_NEAR(shares[4], 0.5 - 0.4 * 4 / 5, 1e-9);
  for (const json &update : linear["updates"])
    for (const json &layer : update["layers"]) {
      // At most the share asked for moves (what is dropped may come back at once), and no fewer than some.
      EXPECT_LE(layer["grown"], std::ceil(update["share"].get<double>() * layer["kept"].get<double>()));
      EXPECT_GT(layer["grown"], 0);
      EXPECT_EQ(layer["grown"], layer["dropped"]);
    }
  const json constant = trained("constant", set + "  update:\n    every: 3\n    fraction:\n      start: 0.3\n"
                                                  "      schedule: constant\n");
  shares = sharesOf(constant);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares[3], 0.3, 1e-9);
  EXPECT_NEAR(shares[6], 0.3, 1e-9);
  // The study's values where none are given: 0.1 to 0.005 by a cosine.
  shares = sharesOf(trained("cosine", set + "  update:\n    every: 4\n"));
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares[4], 0.0525, 1e-9);
  EXPECT_NEAR(shares[8], 0.005, 1e-9);

  // Which weights go and come: each choice makes other masks of the same weights.
  std::map<std::string, std::string> seen;
  for (const char *choice : {"drop: magnitude", "drop: signed", "drop: soft", "grow: gradient"}) {
    const std::string name = std::string("choice") + std::to_string(seen.size());
    const json report = trained(name, set + "  update:\n    every: 2\n    " + choice + "\n");
    EXPECT_DOUBLE_EQ(report["total"]["density"], 0.25) << choice;
    auto [other, isNew] = seen.try_emplace(read(weightsOf(name)), choice);
    EXPECT_TRUE(isNew) << choice << " does what " << other->second << " does";
  }
  // Counts of their own for grown weights, and a damped first moment: other losses.
  const json aged =
      trained("aged", set + "  update:\n    every: 2\n  regrown:\n    value: zero\n    moments: zero\n"
                            "    step: 5\n    ramp: 20\n");
  EXPECT_TRUE(aged["layers"][0].contains("ages"));
  EXPECT_TRUE(read(weightsOf("aged")) != read(weightsOf("choice0")));
  const json undamped = trained("undamped", set + "  update:\n    every: 2\n  regrown:\n    step: 5\n");
  EXPECT_TRUE(read(weightsOf("aged")) != read(weightsOf("undamped")));
}

TEST_F(CommandLineSparsityTest, PruningChangesKernelsAtAStepOnRecord) {
  const json report =
      trained("pruned", "  targets: [attention, experts]\n  density: 0.25\n  method: gradual\n"
                        "  break_even: 60\n  update:\n    every: 1\n");
  ASSERT_EQ(report["updates"].size(), 8u);
  int changes = 0, last = 0;
  for (const json &update : report["updates"]) {
    // Zhu and Gupta: 1 - (1 - t / T)^3 of what will go has gone.
    const double t = update["step"].get<double>() / 8, kept = 1 - 0.75 * (1 - std::pow(1 - t, 3));
    EXPECT_EQ(update["products"], 2 * (4 * 3 + 3 * 3)) << "three a matrix, two layers";
    const int skipping = update["skipping"];
    EXPECT_EQ(skipping, kept <= 0.6 ? 42 : 0) << "step " << update["step"];
    changes += skipping != last, last = skipping;
  }
  EXPECT_EQ(changes, 1);
  EXPECT_NE(good("sluice masks pruned").out.find("42 of 42"), std::string::npos);
  // A run that stops right before or after the change goes on with the same bits.
  for (const char *stop : {"128", "256", "384"}) {
    const std::string name = std::string("stopped") + stop;
    good("sluice-run train pruned.slx --out " + name + quiet + "1 --stop-after " + stop);
    good("sluice-run train pruned.slx --out " + name + quiet + "2");
    EXPECT_EQ(checkpointHash(name, 8), checkpointHash("pruned", 8)) << stop;
  }
}

TEST_F(CommandLineSparsityTest, RulesOfTheirOwnForDifferentWeights) {
  const std::string update = "    update:\n      every: 3\n      fraction:\n        start: 0.5\n";
  const json report = trained(
      "rules",
      "  - targets: [attention]\n    density: 0.5\n    method: set\n    pattern:\n      n: 2\n      m: 4\n" +
          update +
          "  - targets: [layers.*.moe.experts.w_down]\n    density: 0.25\n    method: "
          "gradual\n" +
          update +
          "  - targets: [layers.*.moe.experts.w_up]\n    density: 0.5\n    method: rigl\n    "
          "pattern:\n      block: [16, 16]\n" +
          update);
  EXPECT_EQ(report["method"], "set, gradual, rigl");
  std::map<std::string, int> patterns;
  for (const json &layer : report["layers"])
    ++patterns[layer["pattern"].get<std::string>() + " " + std::to_string(layer["density"].get<double>())];
  // Gradual pruning after step 6 of 8 has removed 1 - 1/64 of three quarters.
  EXPECT_EQ(patterns["2:4 0.500000"], 8) << json(patterns);
  EXPECT_EQ(patterns["block:16x16 0.500000"], 2) << json(patterns);
  EXPECT_EQ(patterns.size(), 3u) << json(patterns);
  ASSERT_EQ(report["updates"].size(), 2u);
  for (const json &update : report["updates"])
    for (const auto &[name, layer] : update["layers"].items()) {
      if (name.find("w_up") == std::string::npos) { // of three blocks all may come back at once
        EXPECT_GT(layer["dropped"], 0) << name;
      }
      if (name.find("w_down") != std::string::npos)
        EXPECT_EQ(layer["grown"], 0) << name;
      else
        EXPECT_EQ(layer["grown"], layer["dropped"]) << name;
    }
  // The same bits on any thread count and across a stop at each phase of an update.
  const std::string hash = checkpointHash("rules", 8);
  for (int stop : {2, 3, 4}) {
    const std::string run = "rules-stop" + std::to_string(stop);
    good("sluice-run train rules.slx --out " + run + quiet + "1 --stop-after " +
         std::to_string(stop * stepTokens));
    good("sluice-run train rules.slx --out " + run + quiet + "1");
    EXPECT_EQ(checkpointHash(run, 8), hash) << "stopped after step " << stop;
  }
  // A later layer of the spec may change one key of a rule.
  good("sluice stats rules.yaml --set sparsity.0.update.drop=soft");
  bad("sluice stats rules.yaml --set sparsity.density=0.5", 2,
      {"--set sparsity.density=0.5", "sparsity.0.density", "list of 3 rules"});
  bad("sluice stats rules.yaml --set sparsity.0.update.every=4", 2,
      {"sparsity.1", "schedule of sparsity.0", "every"});
  bad("sluice stats rules.yaml --set sparsity.0.targets=[attention,layers.*.moe.experts.w_up]", 2,
      {"sparsity.2.targets", "w_up", "masked by sparsity.0 already"});
}

TEST_F(CommandLineSparsityTest, WhatMakesNoSenseIsRefused) {
  struct Case {
    std::string section;
    std::vector<std::string> parts;
  };
  const std::string attention = "  targets: [attention]\n  density: 0.5\n",
                    set = attention + "  method: set\n  update:\n    ";
  const std::string list =
      "  - targets: [attention]\n    density: 0.5\n  - targets: [experts]\n    density: 0.5\n";
  for (const Case &c : std::vector<Case>{
           {"  targets: [attention]\n  density: 0\n", {"wrong.yaml:", "sparsity.density", "'0'"}},
           {"  targets: [attention]\n  density: 1.5\n", {"wrong.yaml:", "sparsity.density", "'1.5'"}},
           {"  targets: [attention]\n", {"sparsity.density", "missing"}},
           {"  density: 0.5\n", {"sparsity.targets", "missing"}},
           {"  targets: [convolution]\n  density: 0.5\n",
            {"sparsity.targets", "convolution", "layers.0.attn"}},
           {"  targets: [layers.0.*]\n  density: 0.5\n", {"sparsity.targets", "layers.0.*", "all or none"}},
           {"  targets: [attention]\n  density: 0.4\n  pattern:\n    n: 2\n    m: 5\n",
            {"sparsity.pattern", "multiple of 5"}},
           {attention + "  pattern:\n    n: 1\n    m: 4\n", {"wrong.yaml:", "sparsity.density", "1/4"}},
           {attention + "  pattern:\n    n: 3\n    m: 2\n", {"wrong.yaml:", "sparsity.pattern.n", "3 of 2"}},
           {attention + "  pattern:\n    block: [3, 3]\n", {"sparsity.pattern", "3 x 3"}},
           {attention + "  pattern:\n    block: [16]\n",
            {"wrong.yaml:", "sparsity.pattern.block", "two positive sizes"}},
           {attention + "  pattern:\n    block: [2, 2]\n    n: 1\n    m: 2\n",
            {"sparsity.pattern.block", "found both"}},
           {attention + "  pattern: triangle\n", {"wrong.yaml:", "sparsity.pattern", "triangle"}},
           {attention + "  distribution: fair\n", {"wrong.yaml:", "sparsity.distribution", "fair", "erk"}},
           {attention + "  distribution:\n    attention_to_mlp: -1\n",
            {"wrong.yaml:", "attention_to_mlp", "-1"}},
           {attention + "  method: move\n", {"wrong.yaml:", "sparsity.method", "move", "gradual"}},
           {set + "every: 0\n", {"wrong.yaml:", "sparsity.update.every", "'0'"}},
           {set + "every: often\n", {"wrong.yaml:", "sparsity.update.every", "'often'"}},
           {set + "until: 0\n", {"wrong.yaml:", "sparsity.update.until", "found 0"}},
           {set + "until: 1.5\n", {"wrong.yaml:", "sparsity.update.until", "1.5"}},
           {set + "fraction:\n      start: 2\n",
            {"wrong.yaml:", "sparsity.update.fraction.start", "found 2"}},
           {set + "fraction:\n      end: -1\n", {"wrong.yaml:", "sparsity.update.fraction.end", "found -1"}},
           {set + "fraction:\n      schedule: steep\n",
            {"wrong.yaml:", "sparsity.update.fraction.schedule", "steep", "cosine"}},
           {set + "drop: hard\n", {"wrong.yaml:", "sparsity.update.drop", "hard", "soft"}},
           {set + "grow: fast\n", {"wrong.yaml:", "sparsity.update.grow", "fast", "gradient"}},
           {set + "drop: signed\n  pattern:\n    block: [2, 2]\n",
            {"wrong.yaml:", "sparsity.update.drop", "block:2x2", "no sign"}},
           {attention + "  method: gradual\n  update:\n    drop: soft\n",
            {"wrong.yaml:", "sparsity.update.drop", "gradual", "soft"}},
           {attention + "  method: gradual\n  update:\n    grow: random\n",
            {"wrong.yaml:", "sparsity.update.grow", "gradual"}},
           {attention + "  regrown:\n    value: one\n",
            {"wrong.yaml:", "sparsity.regrown.value", "one", "zero"}},
           {attention + "  regrown:\n    moments: kept\n",
            {"wrong.yaml:", "sparsity.regrown.moments", "kept", "zero"}},
           {attention + "  regrown:\n    ramp: 20\n",
            {"wrong.yaml:", "sparsity.regrown.ramp", "sparsity.regrown.step"}},
           {attention + "  regrown:\n    step: -5\n", {"wrong.yaml:", "sparsity.regrown.step", "-5"}},
           {attention + "  regrown:\n    steps: 5\n",
            {"wrong.yaml:", "sparsity.regrown.steps", "did you mean"}},
           {list + "  - targets: [shared]\n", {"sparsity.2.density", "missing"}},
           {list + "  - targets: [attention]\n    density: 0.1\n",
            {"sparsity.2.targets", "layers.0.attn.wq", "masked by sparsity.0"}},
           {list + "  - experts\n", {"wrong.yaml:", "sparsity", "list of sections"}},
           {"  - targets: [attention]\n    density: 0.5\n    methd: set\n",
            {"wrong.yaml:", "sparsity.0.methd", "did you mean"}},
           {"  - targets: [attention]\n    density: 0.5\n    pattern:\n      block: [3, 3]\n",
            {"sparsity.0.pattern", "3 x 3"}}}) {
    SCOPED_TRACE(c.section);
    write("wrong.yaml", read("moe.yaml") + "sparsity:\n" + c.section);
    bad("sluice stats wrong.yaml", 2, c.parts);
  }
  write("right.yaml", read("moe.yaml") + "sparsity:\n" + list);
  EXPECT_NE(good("sluice stats right.yaml").out.find("nonzero"), std::string::npos);
}

} // namespace
} // namespace sluice
