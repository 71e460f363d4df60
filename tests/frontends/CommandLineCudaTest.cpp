// Training through the programs on the simulated CUDA device: the same bits in any order and across stops, a
// run that changes its device, and what is refused.
#include "tests/frontends/CommandLine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <sstream>

namespace sluice {
namespace {

class CommandLineCudaTest : public CommandLine {
protected:
  static void SetUpTestSuite() {
    CommandLine::SetUpTestSuite();
    good("sluice compile moe.yaml --target cuda:sm_80 -o cuda.slx");
  }
  /// Losses of the run's steps.
  static std::vector<double> losses(const std::string &run) {
    std::vector<double> found;
    std::istringstream lines(read(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (auto record = nlohmann::json::parse(line, nullptr, false);
          record.is_object() && record.value("kind", "") == "train")
        found.push_back(record["loss"]);
    return found;
  }
};

const std::string cuda = " --data data --sample 0 --quiet --device cuda-sim --tokens 512",
                  cpu = " --data data --sample 0 --quiet --device cpu --tokens 512"; // 4 steps of 4 x 32

TEST_F(CommandLineCudaTest, SameBitsInAnyOrderAndAcrossStops) {
  good("sluice-run train cuda.slx --out once" + cuda);
  const std::string hash = checkpointHash("once", 4);
  EXPECT_EQ(hash.size(), 64u);
  const auto device = nlohmann::json::parse(read("once/device.json"));
  EXPECT_EQ(device["device"], "cuda-sim");
  ASSERT_FALSE(device["choices"].empty());
  EXPECT_NE(device["choices"].dump().find(
                ": cuBLASLt 130100, algorithm 2, tile 0, stages 0, split 1, workspace 4096 B"),
            std::string::npos)
      << device;
  ::setenv("SLUICE_CUDASIM", "seed=5", 1);
  good("sluice train moe.yaml --out spec" + cuda); // compiles for CUDA by itself
  EXPECT_EQ(checkpointHash("spec", 4), hash);
  good("sluice-run train cuda.slx --stop-after 256 --out stopped" + cuda);
  ::unsetenv("SLUICE_CUDASIM");
  good("sluice-run train cuda.slx --out stopped" + cuda);
  EXPECT_EQ(checkpointHash("stopped", 4), hash);
}

TEST_F(CommandLineCudaTest, MaskedRunsStartAndMoveAsOnTheCpu) {
  write("masked.yaml", read("moe.yaml") +
                           "sparsity:\n  targets: [attention, experts]\n  density: 0.25\n  method: set\n"
                           "  update:\n    every: 2\n  regrown:\n    step: 5\n    ramp: 20\n");
  good("sluice compile masked.yaml --target cuda:sm_80 -o masked.slx");
  good("sluice-run train masked.slx --stop-after 0 --out masked-cpu" + cpu);
  good("sluice-run train masked.slx --out masked" + cuda + " --stop-after 0");
  // Moments and ages are zero: what is left is masks.
  const std::string start = "/checkpoints/step-00000000/optimizer.safetensors";
  EXPECT_TRUE(read("masked" + start) == read("masked-cpu" + start));
  good("sluice-run train masked.slx --out masked" + cuda);
  const auto report = nlohmann::json::parse(good("sluice masks masked --json -").out);
  EXPECT_EQ(report["updates"].size(), 2u);
  EXPECT_DOUBLE_EQ(report["total"]["density"], 0.25);
  EXPECT_LT(report["total"]["overlap_with_start"], 1.0);
  // In another order, stopped right before and after an update, the same bits; and a run may change its
  // device.
  ::setenv("SLUICE_CUDASIM", "seed=5", 1);
  for (const char *stop : {"128", "256"})
    good(std::string("sluice-run train masked.slx --out masked-stopped --stop-after ") + stop + cuda);
  ::unsetenv("SLUICE_CUDASIM");
  good("sluice-run train masked.slx --out masked-stopped" + cuda);
  EXPECT_EQ(checkpointHash("masked-stopped", 4), checkpointHash("masked", 4));
  good("sluice-run train masked.slx --out masked-cpu" + cuda + " --stop-after 256");
  good("sluice-run train masked.slx --out masked-cpu" + cpu);
}

TEST_F(CommandLineCudaTest, ARunMovesBetweenDevices) {
  good("sluice-run train cuda.slx --out straight" + cpu);
  good("sluice-run train cuda.slx --stop-after 128 --out moving" + cpu);
  Outcome moved =
      good("sluice-run train cuda.slx --stop-after 384 --out moving --data data --sample 0 --tokens 512 "
           "--device cuda-sim");
  EXPECT_NE(moved.out.find("written on cpu; from here on cuda-sim computes"), std::string::npos) << moved.out;
  good("sluice-run train cuda.slx --out moving" + cpu);
  const std::vector<double> want = losses("straight"), got = losses("moving");
  ASSERT_EQ(got.size(), want.size());
  for (size_t step = 0; step < want.size(); ++step)
    EXPECT_NEAR(got[step] / want[step], 1.0, 1e-3) << "step " << step + 1;
}

TEST_F(CommandLineCudaTest, KernelsAreShownWithWhatTheyNeed) {
  const std::string text = good("sluice-run inspect cuda.slx --kernels").out;
  for (const char *part :
       {"cuda:sm_80", "registers", "spills", "  attention_forward", "  experts_up", "<= 256", "accumulate: ",
        " launches", "FLOPs", "2 attention_forward_32, sequence/8 x heads x batch blocks of 256: ",
        " gemm or cuBLASLt, columns/64 x rows/64 blocks of 256: ", "routed rows/64 + experts blocks of 256: ",
        "1 adamw, elements/4096 blocks of 256: "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // Blocks of masks run over kept blocks: 2 x 2 of them in a matrix of 32 x 32, one kept.
  write("blocks.yaml", read("moe.yaml") + "sparsity:\n  targets: [attention]\n  density: 0.25\n"
                                          "  pattern:\n    block: [16, 16]\n");
  good("sluice compile blocks.yaml --target cuda:sm_80 -o blocks.slx");
  const std::string blocks = good("sluice-run inspect blocks.slx --kernels").out;
  for (const char *part : {" block_gemm_16, outputs/16 x rows/256 blocks of 256: ",
                           " block_gemm_16, inputs/16 x rows/256 blocks of 256: ",
                           " block_weight_gradient_16, kept blocks blocks of 256: 1",
                           " list_blocks, rows of blocks/8 blocks of 256: 1"})
    EXPECT_NE(blocks.find(part), std::string::npos) << part << "\n" << blocks;
  bad("sluice inspect moe.slx --kernels", 2, {"--kernels", "--target cuda:sm_80"});
}

TEST_F(CommandLineCudaTest, EveryCommandConformsWithTheCpu) {
  const std::string text = good("sluice-run doctor --conformance cuda.slx --device cuda-sim").out;
  for (const char *part : {"Conformance of cuda-sim with the CPU", "\nattention_backward ", "\nlaunch ",
                           "\nroute ", "\nadamw ", "\nrandom_normal ", " conforms"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("DIFFERS"), std::string::npos) << text;
  bad("sluice-run doctor --conformance none.slx --device cuda-sim", 2, {"--conformance", "none.slx"});
  bad("sluice-run doctor --device cuda-sim", 2, {"--conformance"});
  bad("sluice-run doctor --conformance moe.slx --device cuda-sim", 2, {"holds no kernels for cuda-sim"});
}

TEST_F(CommandLineCudaTest, CommandsOneByOneComputeTheSame) {
  good("sluice-run train cuda.slx --out replayed" + cuda);
  ::setenv("SLUICE_CUDA_SYNC", "1", 1);
  good("sluice-run train cuda.slx --out alone" + cuda);
  ::setenv("SLUICE_CUDA_SYNC", "yes", 1);
  bad("sluice-run train cuda.slx --out none" + cuda, 2, {"SLUICE_CUDA_SYNC", "expected 1", "found 'yes'"});
  ::unsetenv("SLUICE_CUDA_SYNC");
  EXPECT_EQ(checkpointHash("alone", 4), checkpointHash("replayed", 4));
  EXPECT_NE(good("sluice-run train --help").out.find("SLUICE_CUDA_SYNC=1"), std::string::npos);
}

TEST_F(CommandLineCudaTest, WithoutADriverOneLineSaysSo) {
  if (::dlopen("libcuda.so.1", RTLD_NOW))
    GTEST_SKIP() << "this machine has a driver";
  for (const char *device : {"cuda", "cuda:1"}) {
    const Outcome outcome =
        run(std::string("sluice-run train cuda.slx --data data --out none --device ") + device);
    EXPECT_EQ(outcome.code, 1);
    for (const char *part : {"no CUDA driver: libcuda.so.1", "--device cpu", "--device cuda-sim"})
      EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  const std::string report = good("sluice-run doctor").out;
  EXPECT_NE(report.find("CUDA driver     not usable"), std::string::npos) << report;
}

TEST_F(CommandLineCudaTest, WhatCannotRunIsRefused) {
  bad("sluice-run train moe.slx --out none" + cuda, 2,
      {"holds no kernels for cuda-sim", "--target cuda:sm_80"});
  bad("sluice compile moe.yaml --target cuda:sm_80 -o wide.slx --set model.width=640 --set model.heads=2", 1,
      {"attention_forward of 'layers.0.attn'", "head_dim and value_dim must be at most 256", "--device cpu"});
  ::setenv("SLUICE_CUDASIM", "memory=1048576", 1);
  bad("sluice-run train cuda.slx --out small" + cuda, 2,
      {"on cuda-sim: expected a plan of at most", "(available memory)", "arena", "activations", "workspace",
       "total"});
  ::unsetenv("SLUICE_CUDASIM");
  // The folder is still nobody's: the same --out takes the run with a smaller batch.
  EXPECT_FALSE(exists("small/config.resolved.json"));
  EXPECT_FALSE(exists("small/model.slx"));
}

} // namespace
} // namespace sluice
