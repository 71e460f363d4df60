// Training steps in flight on the simulated CUDA device: one graph a step, no wait of the host inside it, two
// steps in flight, steps that sum dense gradients, and a step that diverges.
#include "tests/frontends/CudaCounts.h"

#include "runtime/data/Pack.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/TrainingData.h"
#include "tests/runtime/data/TestData.h"

#include <limits>
#include <set>

namespace sluice::cli {
namespace {

/// Nodes of the one graph of a step, from those of the entry points' own graphs, which end with a copy of the
/// damage flag: tokens and targets in and every result out for each micro-batch, three numbers in and the
/// norm out for apply, one copy of the flag at the end.
int64_t nodesOfAStep(Session &session, int64_t microBatches) {
  int64_t nodes[2] = {0, 0};
  int entry = 0;
  for (const char *name : {"accumulate", "apply"}) {
    EXPECT_TRUE(session.run(name).ok()); // captures
    EXPECT_TRUE(settle(session).ok());
    clearCounts();
    EXPECT_TRUE(session.run(name).ok());
    EXPECT_TRUE(settle(session).ok());
    nodes[entry++] = calls()["graph_nodes"].get<int64_t>();
  }
  const auto results = static_cast<int64_t>(session.description().entry("accumulate")->outputs.size());
  return microBatches * (2 + nodes[0] - 1 + results) + 3 + nodes[1] - 1 + 1 + 1;
}

/// A model, data for it, and a device with a session and a runner of three micro-batches.
class CudaRunner : public testing::Test {
protected:
  void compile(const char *name, std::vector<std::string> settings) {
    const PackOptions pack = test::packOptions(folder, test::seededText(7, 400), 320);
    REQUIRE_OK(packDataset(pack));
    for (const char *more :
         {"model.vocabulary=320", "train.batch_tokens=114", "train.lr=1e-2", "train.tokens=2280"})
      settings.emplace_back(more);
    StatusOr<Executable> made = compileModel({name, settings}, {"cuda:sm_80"});
    REQUIRE_OK(made);
    executable.emplace(std::move(*made));
    StatusOr<TrainingConfig> read = readTrainingConfig(executable->description.training, {});
    REQUIRE_OK(read);
    config = *read;
    auto opened = TrainingData::open(executable->description, config, pack.output);
    REQUIRE_OK(opened);
    data = std::move(*opened);
  }
  void open(bool onCuda) {
    configure("check=none;seed=0");
    runner.reset();
    session.reset();
    auto opened = onCuda ? createCudaDevice(simulator, 0, "cuda-sim") : createCpuDevice(2);
    REQUIRE_OK(opened);
    device = std::move(*opened);
    StatusOr<Session> created = Session::create(*executable, *device);
    REQUIRE_OK(created);
    session.emplace(std::move(*created));
    REQUIRE_OK(session->initialize(1));
    StatusOr<StepRunner> made = StepRunner::create(*session, config.batchTokens);
    REQUIRE_OK(made);
    runner.emplace(std::move(*made));
    EXPECT_EQ(runner->microBatches(), 3);
  }
  Status start(int64_t step) {
    return runner->start(data->training, static_cast<uint64_t>(step - 1) * runner->windows(), step, 1e-2);
  }

  test::TemporaryFolder folder;
  std::optional<Executable> executable;
  TrainingConfig config;
  std::unique_ptr<TrainingData> data;
  std::unique_ptr<Device> device;
  std::optional<Session> session;
  std::optional<StepRunner> runner;
};

TEST_F(CudaRunner, TheHostWaitsForNothingInsideAStep) {
  compile("steps", four);
  std::vector<double> losses[2];
  for (bool onCuda : {false, true}) {
    open(onCuda);
    StepSums sums = runner->emptySums();
    std::set<int64_t> nodes;
    constexpr int64_t last = 5;
    for (int64_t step = 1; step <= last; ++step) {
      clearCounts();
      REQUIRE_OK(start(step));
      if (onCuda) {
        EXPECT_EQ(calls()["host_waits"], 0);
        EXPECT_EQ(calls()["graph_launches"], 1) << "three micro-batches and the update";
        nodes.insert(calls()["graph_nodes"].get<int64_t>());
      }
      while (runner->inFlight() > (step < last ? 1 : 0)) {
        clearCounts();
        sums.clear();
        REQUIRE_OK(runner->finish(sums));
        losses[onCuda].push_back(sums.loss());
        if (onCuda)
          EXPECT_EQ(calls()["host_waits"], 1) << "for the results of the step before";
      }
    }
    if (onCuda)
      EXPECT_EQ(nodes, std::set<int64_t>{nodesOfAStep(*session, 3)});
  }
  ASSERT_EQ(losses[1].size(), 5u);
  for (size_t step = 0; step < losses[0].size(); ++step)
    EXPECT_NEAR(losses[1][step] / losses[0][step], 1.0, 1e-3) << "step " << step + 1;
}

TEST_F(CudaRunner, StepsThatSumDenseGradientsAreOneGraphToo) {
  compile("rigl", {"sparsity.targets=[attention]", "sparsity.density=0.5", "sparsity.method=rigl",
                   "sparsity.update.every=3"});
  std::vector<double> losses[2];
  std::vector<int64_t> grown[2];
  for (bool onCuda : {false, true}) {
    open(onCuda);
    REQUIRE_OK(runner->updateMasks(MaskSchedule(config.masks, config.stepsFor(config.tokens)), 1));
    StepSums sums = runner->emptySums();
    for (int64_t step = 1; step <= 7; ++step) {
      clearCounts();
      REQUIRE_OK(start(step));
      if (onCuda)
        EXPECT_EQ(calls()["graph_launches"], step % 3 == 0 ? 2 : 1)
            << "the update of masks is its own program";
      const MaskChange *change = runner->maskChange(step);
      EXPECT_EQ(change != nullptr, step % 3 == 0);
      for (size_t layer = 0; change && layer < change->layers.size(); ++layer)
        grown[onCuda].push_back(change->layers[layer].grown);
      while (runner->inFlight() > (change ? 0 : 1)) {
        sums.clear();
        REQUIRE_OK(runner->finish(sums));
        losses[onCuda].push_back(sums.loss());
      }
    }
    EXPECT_FALSE(grown[onCuda].empty());
    EXPECT_GT(*std::max_element(grown[onCuda].begin(), grown[onCuda].end()), 0);
  }
  EXPECT_EQ(grown[1], grown[0]);
  ASSERT_EQ(losses[1].size(), 6u);
  for (size_t step = 0; step < losses[0].size(); ++step)
    EXPECT_NEAR(losses[1][step] / losses[0][step], 1.0, 1e-3) << "step " << step + 1;
}

TEST_F(CudaRunner, ADivergedStepIsNamedAndChangesNothing) {
  compile("diverges", {});
  for (bool onCuda : {false, true}) {
    open(onCuda);
    StepSums sums = runner->emptySums();
    REQUIRE_OK(start(1));
    REQUIRE_OK(runner->finish(sums));
    // What the first micro-batch reads lies in the room of its flight when its layer is looked for, though
    // the next step has been started.
    const StateTensor *bad = nullptr;
    for (const StateTensor &tensor : session->description().tensors)
      if (tensor.role == TensorRole::Parameter && tensor.name.find("w_up") != std::string::npos)
        bad = &tensor;
    ASSERT_NE(bad, nullptr);
    const float infinite = std::numeric_limits<float>::infinity();
    REQUIRE_OK(session->writeState(*bad, 0, &infinite, sizeof infinite));
    std::map<std::string, std::string> before;
    for (const StateTensor &tensor : session->description().tensors)
      if (tensor.role != TensorRole::Gradient)
        before[tensor.name] = *session->readState(tensor.name);
    REQUIRE_OK(start(2));
    REQUIRE_OK(start(3));
    EXPECT_FALSE(start(4).ok()) << "two in flight";
    const Status status = runner->finish(sums);
    EXPECT_EQ(exitCode(status), ExitCode::Diverged) << status;
    EXPECT_NE(status.message().find("step 2, micro-batch 0"), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find(bad->name), absl::string_view::npos) << status;
    EXPECT_EQ(runner->inFlight(), 0);
    for (const auto &[name, bytes] : before)
      EXPECT_TRUE(*session->readState(name) == bytes) << name;
  }
}

} // namespace
} // namespace sluice::cli
