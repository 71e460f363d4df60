// A masked model on real text: kernels that skip zeros against masked dense ones over 200 steps.
#include "tests/frontends/CommandLine.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <regex>
#include <sstream>

namespace sluice {
namespace {

using CommandLineMaskTest = CommandLine;

constexpr int steps = 200; // of 8 x 64 tokens

const char *const spec = R"(model:
  vocabulary: 512
  vocabulary_from: data
  width: 64
  layers: 2
  heads: 4
  kv_heads: 2
  ffn: 256
  tied: true
sparsity:
  targets: [attention, mlp]
  density: 0.1
  method: set
  update:
    every: 50
schedule:
  kind: cosine
  warmup: 10%
train:
  batch: 8
  seq: 64
  tokens: 102400
  lr: 3e-3
log:
  every_steps: 1
)";

/// The training loss of every step.
std::vector<double> losses(const std::string &metrics) {
  std::vector<double> found;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);)
    if (auto record = nlohmann::json::parse(line, nullptr, false);
        record.is_object() && record.value("kind", "") == "train")
      found.push_back(record["loss"].get<double>());
  return found;
}

TEST_F(CommandLineMaskTest, SkippingZerosTrainsAsMaskedDenseKernelsDo) {
  // Debian's King James text, which scripts/install-deps.sh installs for the demo.
  const std::string command = std::string(SLUICE_SOURCE_DIR) + "/scripts/demo-text.sh " + path("kjv.txt");
  ASSERT_EQ(std::system(command.c_str()), 0);
  write("part.txt", read("kjv.txt").substr(0, 600000));
  good("sluice data pack part.txt --vocab 512 --documents paragraph -o kjv");
  write("masked.yaml", spec);
  std::vector<double> curves[2];
  for (auto [index, percent, choice] :
       {std::tuple{0, "0", "masked dense, keeps"}, {1, "100", "skips zeros, keeps"}}) {
    const std::string set = std::string(" --set sparsity.break_even=") + percent,
                      run = "masked" + std::to_string(index);
    const std::string explained = good("sluice compile masked.yaml -o masked.slx --explain" + set).out;
    EXPECT_NE(explained.find(choice), std::string::npos) << explained;
    good("sluice train masked.yaml --data kjv --sample 0 --quiet --out " + run + set);
    curves[index] = losses(read(run + "/metrics.jsonl"));
    ASSERT_EQ(curves[index].size(), size_t{steps});
  }
  EXPECT_LT(curves[0].back(), 0.8 * curves[0].front()) << "the model must learn something";
  double largest = 0;
  for (int step = 0; step < steps; ++step) {
    const double difference = std::abs(curves[1][step] - curves[0][step]) / curves[0][step];
    EXPECT_LT(difference, 0.005) << "step " << step + 1;
    largest = std::max(largest, difference);
  }
  RecordProperty("largest_relative_difference", std::to_string(largest));
  EXPECT_NE(curves[0], curves[1]) << "two kinds of kernels must have run";
}

TEST_F(CommandLineMaskTest, ExpertsInKeptFormTrainAsWholeOnes) {
  const std::string sparsity = "sparsity:\n  targets: [experts]\n  density: 0.25\n  method: rigl\n"
                               "  update:\n    every: 2\n  regrown:\n    step: 5\n    ramp: 20\n";
  std::string weights[2];
  std::vector<double> curves[2];
  for (bool isKept : {false, true}) {
    const std::string name = isKept ? "experts-kept" : "experts-whole";
    write(name + ".yaml", read("moe.yaml") + sparsity + "  break_even: " + (isKept ? "100" : "0") + "\n");
    good("sluice compile " + name + ".yaml -o " + name + ".slx");
    good("sluice-run train " + name + ".slx --data data --sample 0 --quiet --threads 2 --out " + name);
    curves[isKept] = losses(read(name + "/metrics.jsonl"));
    // Files hold whole tensors in both.
    weights[isKept] = read(name + "/checkpoints/step-00000008/model.safetensors");
    const std::string shape = good("sluice inspect " + name + ".slx --tensors 1000").out;
    EXPECT_EQ(std::regex_search(shape, std::regex("experts.w_down +f32\\[4,[0-9]+\\]\\s")), isKept) << shape;
  }
  ASSERT_EQ(curves[0].size(), 8u);
  for (size_t step = 0; step < curves[0].size(); ++step)
    EXPECT_NEAR(curves[1][step], curves[0][step], 1e-5 * curves[0][step]) << "step " << step + 1;
  EXPECT_EQ(weights[0].size(), weights[1].size());
  // Across an update, and on one thread: the same checkpoint.
  good("sluice-run train experts-kept.slx --data data --sample 0 --quiet --threads 1 --out stopped "
       "--stop-after 384");
  good("sluice-run train experts-kept.slx --data data --sample 0 --quiet --threads 1 --out stopped");
  EXPECT_EQ(checkpointHash("stopped", 8), checkpointHash("experts-kept", 8));
}

TEST_F(CommandLineMaskTest, ADivergingRunOfKeptWeightsKeepsItsLastGoodState) {
  write("kept.yaml",
        read("moe.yaml") + "sparsity:\n  targets: [attention]\n  density: 0.25\n  break_even: 100\n");
  bad("sluice train kept.yaml --set train.lr=1e30 --data data --sample 0 --quiet --out wild", 4,
      {"step 2", "not finite", "in 'embed.weight'", "lower train.lr"});
  // The state after the first step: what a run that stops there leaves.
  good("sluice train kept.yaml --set train.lr=1e30 --data data --sample 0 --quiet --out tame --stop-after "
       "128");
  EXPECT_EQ(checkpointHash("wild", 1), checkpointHash("tame", 1));
}

} // namespace
} // namespace sluice
