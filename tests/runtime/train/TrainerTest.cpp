// Whole runs of a tiny model on the CPU device: it learns, and stopping, repeating or other thread counts
// change no bit.
#include "runtime/train/Trainer.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/RunLock.h"
#include "runtime/data/Pack.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/executor/Session.h"
#include "runtime/metrics/MetricsReader.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Signals.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/TrainingData.h"
#include "tests/runtime/data/TestData.h"
#include "tests/runtime/executor/TinyModel.h"

#include <cmath>
#include <csignal>
#include <limits>
#include <sys/wait.h>
#include <thread>

namespace sluice {
namespace {

constexpr int vocabulary = 320;
constexpr int64_t stepTokens = 32;

std::string trainingSection(int steps, const char *more = "") {
  return concat(R"({"batch_tokens": 32, "lr": 0.01, "tokens": )", steps * stepTokens,
                R"(, "schedule": {"warmup": 64}, "log": {"every_steps": 1},)",
                R"( "evaluation": {"every_tokens": 96, "windows": 5}, "losses": {"balance": 0.01})", more,
                "}");
}

class TrainerTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    shared = new test::TemporaryFolder;
    PackOptions options = test::packOptions(*shared, test::seededText(7, 400), vocabulary);
    StatusOr<PackSummary> packed = packDataset(options);
    ASSERT_TRUE(packed.ok()) << packed.status().ToString();
    data = options.output;
  }
  static void TearDownTestSuite() { delete shared; }

  static Executable executable(const std::string &training, int64_t experts = 4) {
    auto description =
        testing::tinyModel({.vocabulary = vocabulary, .experts = experts, .training = training});
    StatusOr<Executable> loaded = parseExecutable(serializeExecutable(description), "tiny.slx");
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    return *loaded;
  }

  StatusOr<TrainReport> run(const std::string &name, const Executable &model, int threads = 1,
                            std::optional<int64_t> stopAfterSteps = {}, TrainingOverrides overrides = {}) {
    std::unique_ptr<Device> device = *createCpuDevice(threads);
    TrainOptions options;
    options.dataFolder = data;
    options.runFolder = folder / name;
    options.overrides = std::move(overrides);
    options.spec = spec;
    if (stopAfterSteps)
      options.stopAfterTokens = *stopAfterSteps * stepTokens;
    return train(model, *device, options);
  }

  /// SHA-256 of everything a checkpoint says about the run.
  static std::string hashOf(const std::string &checkpoint) {
    Sha256 hash;
    for (const char *file : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"})
      hash.update(*readFile(checkpoint + "/" + file));
    return toHex(hash.finish());
  }

  std::vector<nlohmann::json> records(const std::string &name, const std::string &kind) {
    MetricsFile file = *readMetrics(folder / name + "/metrics.jsonl");
    std::vector<nlohmann::json> found;
    for (const nlohmann::json &record : file.records)
      if (record["kind"] == kind)
        found.push_back(record);
    return found;
  }

  test::TemporaryFolder folder;
  std::string spec;
  static inline test::TemporaryFolder *shared = nullptr;
  static inline std::string data;
};

TEST_F(TrainerTest, Learns) {
  Executable model = executable(trainingSection(60));
  TrainingOverrides overrides;
  overrides.settings = {"evaluation.windows=0"};
  StatusOr<TrainReport> report = run("a", model, 1, {}, overrides);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->finished);
  EXPECT_EQ(report->step, 60);
  EXPECT_EQ(report->tokens, 60 * stepTokens);
  std::vector<nlohmann::json> evaluations = records("a", "evaluation"), steps = records("a", "train");
  ASSERT_EQ(steps.size(), 60u);
  // At the start every token is about as likely as any other: ln V.
  EXPECT_NEAR(evaluations.front()["nats_per_token"].get<double>(), std::log(vocabulary), 0.02);
  EXPECT_EQ(evaluations.front()["step"], 0);
  EXPECT_LT(report->validation.natsPerToken(), std::log(vocabulary) - 0.5);
  EXPECT_GT(report->validation.bytes, report->validation.characters) << "the text has letters of two bytes";
  // A stream of joined documents has no padding: every target counts.
  EXPECT_EQ(steps[9]["seen_tokens"], 10 * stepTokens);
  EXPECT_EQ(steps[9]["step"], 10);
  EXPECT_GT(steps[9]["gradient_norm"].get<double>(), 0);
  EXPECT_NEAR(steps[1]["learning_rate"].get<double>(), 0.01, 1e-12);
  EXPECT_NEAR(steps[59]["learning_rate"].get<double>(), 0.001, 1e-12);
  // Routing of random logits: top-2 of 4 experts, so loads sum to 1 and the balance loss is near 1.
  double load = 0;
  for (const auto &share : steps[0]["routing"]["layers.0.moe"]["load"])
    load += share.get<double>();
  EXPECT_NEAR(load, 1, 1e-12);
  EXPECT_NEAR(steps[0]["auxiliary"]["balance"].get<double>(), 1, 0.2);
  EXPECT_DOUBLE_EQ(steps[0]["objective"].get<double>(),
                   steps[0]["loss"].get<double>() + 0.01 * steps[0]["auxiliary"]["balance"].get<double>());
  EXPECT_EQ(hashOf(report->checkpoint), hashOf(folder / "a/latest"));
  EXPECT_TRUE(readFile(folder / "a/best/state.json").ok());
}

TEST_F(TrainerTest, RepeatsAndThreadCountsGiveTheSameBits) {
  Executable model = executable(trainingSection(8));
  std::string first = hashOf(run("a", model)->checkpoint);
  EXPECT_EQ(hashOf(run("b", model)->checkpoint), first);
  EXPECT_EQ(hashOf(run("c", model, /*threads=*/2)->checkpoint), first);
  TrainingOverrides other;
  other.seed = 2;
  EXPECT_NE(hashOf(run("d", model, 1, {}, other)->checkpoint), first);
}

TEST_F(TrainerTest, StopAndResumeAtEveryStepGivesTheSameBits) {
  Executable model = executable(trainingSection(8));
  std::string whole = hashOf(run("whole", model)->checkpoint);
  for (int stop = 1; stop < 8; ++stop) {
    std::string name = concat("stop", stop);
    StatusOr<TrainReport> part = run(name, model, 1, stop);
    ASSERT_TRUE(part.ok()) << part.status().ToString();
    EXPECT_EQ(part->step, stop);
    EXPECT_FALSE(part->finished);
    StatusOr<TrainReport> rest = run(name, model, 2);
    ASSERT_TRUE(rest.ok()) << rest.status().ToString();
    EXPECT_EQ(hashOf(rest->checkpoint), whole) << "stopped after step " << stop;
    EXPECT_EQ(records(name, "train").size(), 8u);
  }
  // One step at a time.
  for (int stop = 1; stop <= 8; ++stop)
    ASSERT_TRUE(run("single", model, 1, stop).ok());
  EXPECT_EQ(hashOf(folder / "single/latest"), whole);
}

TEST_F(TrainerTest, MicroBatchesAreOneStep) {
  // 32 tokens as two micro-batches of 16 or as one of 32: the same step but for the order of float additions.
  auto split = testing::tinyModel({.batch = 2, .vocabulary = vocabulary, .training = trainingSection(6)});
  auto joined = testing::tinyModel({.batch = 4, .vocabulary = vocabulary, .training = trainingSection(6)});
  Executable a = *parseExecutable(serializeExecutable(split), "a"),
             b = *parseExecutable(serializeExecutable(joined), "b");
  StatusOr<TrainReport> first = run("a", a), second = run("b", b);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NEAR(first->validation.natsPerToken(), second->validation.natsPerToken(), 1e-5);
  std::vector<nlohmann::json> left = records("a", "train"), right = records("b", "train");
  for (size_t index = 0; index < left.size(); ++index)
    EXPECT_NEAR(left[index]["loss"].get<double>(), right[index]["loss"].get<double>(), 1e-5) << index;
}

TEST_F(TrainerTest, ARunUnderOtherSettingsIsRefused) {
  spec = "model.width: 16\ntrain.lr: 0.01\n";
  Executable model = executable(trainingSection(6));
  ASSERT_TRUE(run("a", model, 1, 2).ok());
  TrainingOverrides overrides;
  overrides.settings = {"train.lr=0.02"};
  Status rate = run("a", model, 1, {}, overrides).status();
  EXPECT_EQ(exitCode(rate), ExitCode::Usage);
  EXPECT_NE(rate.message().find("training.lr: 0.01 in the run, 0.02 asked for"), absl::string_view::npos)
      << rate.message();
  Status other = run("a", executable(trainingSection(7))).status();
  EXPECT_EQ(exitCode(other), ExitCode::Usage);
  EXPECT_NE(other.message().find("executable"), absl::string_view::npos);
  spec = "model.width: 32\ntrain.lr: 0.01\n";
  Status changed = run("a", model).status();
  EXPECT_EQ(exitCode(changed), ExitCode::Usage);
  EXPECT_NE(changed.message().find("- model.width: 16\n  + model.width: 32"), absl::string_view::npos)
      << changed.message();
  spec = "model.width: 16\ntrain.lr: 0.01\n";
  EXPECT_TRUE(run("a", model).ok());
}

TEST_F(TrainerTest, TheFolderKeepsTheExecutable) {
  Executable model = executable(trainingSection(4));
  EXPECT_FALSE(runExecutable(folder / "a")->has_value());
  ASSERT_TRUE(run("a", model, 1, 2).ok());
  StatusOr<std::optional<Executable>> kept = runExecutable(folder / "a");
  ASSERT_TRUE(kept.ok() && kept->has_value());
  EXPECT_EQ((*kept)->sha256, model.sha256);
  EXPECT_TRUE(run("a", **kept)->finished);
}

TEST_F(TrainerTest, RefusesWhatDoesNotFit) {
  Executable model = executable(trainingSection(4));
  // A folder with something else in it.
  ASSERT_TRUE(writeFile(folder / "precious.txt", "x").ok());
  std::unique_ptr<Device> device = *createCpuDevice(1);
  TrainOptions options;
  options.dataFolder = data;
  options.runFolder = folder.path;
  EXPECT_EQ(exitCode(train(model, *device, options).status()), ExitCode::Usage);
  // A step that is no multiple of the micro-batch.
  TrainingOverrides overrides;
  overrides.settings = {"train.batch_tokens=24"};
  Status step = run("a", model, 1, {}, overrides).status();
  EXPECT_EQ(exitCode(step), ExitCode::Usage);
  EXPECT_NE(step.message().find("2 x 8"), absl::string_view::npos) << step.message();
  // Another vocabulary.
  auto description = testing::tinyModel({.vocabulary = 300, .training = trainingSection(4)});
  Executable foreign = *parseExecutable(serializeExecutable(description), "foreign.slx");
  Status words = run("b", foreign).status();
  EXPECT_EQ(exitCode(words), ExitCode::Usage);
  EXPECT_NE(words.message().find("320"), absl::string_view::npos) << words.message();
  // No data.
  options.runFolder = folder / "c";
  options.dataFolder = folder / "nowhere";
  EXPECT_EQ(exitCode(train(model, *device, options).status()), ExitCode::Usage);
}

/// The tiny model with other spreads of its initial weights.
Executable withInitialSpread(double embed, double head) {
  auto description = testing::tinyModel({.vocabulary = vocabulary, .training = trainingSection(6)});
  for (EntryPoint &entry : description.entries)
    for (Command &command : entry.commands)
      for (CommandAttribute &attribute : command.attributes)
        if (attribute.name == "standard_deviation")
          attribute.value = command.origin == "embed" ? embed : head;
  return *parseExecutable(serializeExecutable(description), "spread.slx");
}

TEST_F(TrainerTest, ANotFiniteLossStopsAtOnceAndNamesTheTensor) {
  // Products of 1e20 and 1e20 are beyond float32.
  Status status = run("a", withInitialSpread(1e20, 1e20)).status();
  EXPECT_EQ(exitCode(status), ExitCode::Diverged) << status.ToString();
  std::unique_ptr<Device> device = *createCpuDevice(1);
  Executable model = withInitialSpread(1e20, 1e20);
  Session session = *Session::create(model, *device);
  ASSERT_OK(session.initialize(1));
  StepRunner runner = *StepRunner::create(session, stepTokens);
  std::unique_ptr<TrainingData> windows =
      *TrainingData::open(model.description, *readTrainingConfig(model.description.training, {}), data);
  StepSums sums = runner.emptySums();
  Status step = runner.run(windows->training, 0, 1, 1e-3, sums);
  EXPECT_EQ(exitCode(step), ExitCode::Diverged);
  EXPECT_HAS(std::string(step.message()), "step 1, micro-batch 0: expected a finite loss");
  EXPECT_HAS(std::string(step.message()), "'embed'");
}

TEST_F(TrainerTest, ANotFiniteNormLeavesParametersAndMomentsAlone) {
  // With embed = 0 the logits are 0 and the loss is ln V, but the gradients of embed are rows of head: about
  // 3e37 each, and the norm of hundreds of them is beyond float32.
  std::unique_ptr<Device> device = *createCpuDevice(1);
  Executable model = withInitialSpread(0, 3e37);
  Session session = *Session::create(model, *device);
  ASSERT_OK(session.initialize(1));
  StepRunner runner = *StepRunner::create(session, stepTokens);
  std::unique_ptr<TrainingData> windows =
      *TrainingData::open(model.description, *readTrainingConfig(model.description.training, {}), data);
  std::vector<std::string> before;
  for (const StateTensor &tensor : model.description.tensors)
    before.push_back(*session.readState(tensor.name));
  StepSums sums = runner.emptySums();
  // A step that was started before the first was looked at changes nothing either.
  ASSERT_OK(runner.start(windows->training, 0, 1, 1e-3));
  ASSERT_OK(runner.start(windows->training, runner.windows(), 2, 1e-3));
  EXPECT_EQ(exitCode(runner.start(windows->training, 0, 3, 1e-3)), ExitCode::Failure) << "two are in flight";
  Status status = runner.finish(sums);
  EXPECT_EQ(exitCode(status), ExitCode::Diverged);
  EXPECT_HAS(std::string(status.message()), "step 1: expected a finite gradient norm, found inf");
  EXPECT_EQ(runner.inFlight(), 0);
  EXPECT_EQ(sums.steps, 0);
  for (size_t index = 0; index < before.size(); ++index)
    if (model.description.tensors[index].role != TensorRole::Gradient)
      EXPECT_EQ(*session.readState(model.description.tensors[index].name), before[index])
          << model.description.tensors[index].name;
}

TEST_F(TrainerTest, AnExplodingRunKeepsTheLastGoodState) {
  // A rate of 1e38 overflows the weights in the first step; the next forward pass is not finite.
  TrainingOverrides overrides;
  overrides.settings = {"train.lr=1e38", "schedule.kind=constant", "schedule.warmup=0",
                        "evaluation.every_tokens=0"};
  Executable model = executable(trainingSection(6));
  run("good", model, 1, /*stopAfterSteps=*/1, overrides).IgnoreError(); // saved; its evaluation is not finite
  Status status = run("a", model, 1, {}, overrides).status();
  EXPECT_EQ(exitCode(status), ExitCode::Diverged) << status.ToString();
  EXPECT_HAS(std::string(status.message()), "step 2, micro-batch 0");
  EXPECT_HAS(std::string(status.message()), "in 'embed'");
  // The third step was under way when the second was looked at: the state is that after the first.
  EXPECT_EQ(Checkpoint::load(folder / "a/latest")->step, 1u);
  EXPECT_EQ(hashOf(folder / "a/latest"), hashOf(folder / "good/latest"));
}

/// Runs training in a child that raises `signal` on itself at the first line of progress, and returns its
/// exit code.
TEST_F(TrainerTest, TheFirstSignalFinishesTheStepAndSaves) {
  Executable model = executable(trainingSection(2000, R"(, "checkpoint": {"every_steps": 100000})"));
  TrainingOverrides quick;
  quick.settings = {"evaluation.every_tokens=0"};
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    std::string name = concat("signal", signal);
    pid_t child = ::fork();
    if (child == 0) {
      // A thread of the child asks the child to stop once the run has begun.
      std::thread([&] {
        while (!readFile(folder / name + "/metrics.jsonl").ok())
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ::kill(::getpid(), signal);
      }).detach();
      ::_exit(static_cast<int>(exitCode(run(name, model, 1, {}, quick).status())));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << signal;
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::Interrupted));
    StatusOr<Checkpoint> saved = Checkpoint::load(folder / name + "/latest");
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    EXPECT_LT(saved->step, 2000u);
  }
}

TEST_F(TrainerTest, TheSecondSignalEndsAtOnce) {
  pid_t child = ::fork();
  if (child == 0) {
    StopSignals signals;
    ::raise(SIGINT);
    if (signals.requested() != SIGINT)
      ::_exit(1);
    ::raise(SIGTERM);
    ::_exit(2); // not reached
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

TEST_F(TrainerTest, ASecondProcessIsRefused) {
  Executable model = executable(trainingSection(4));
  ASSERT_TRUE(run("a", model, 1, 2).ok());
  RunLock lock = *RunLock::acquire(folder / "a");
  Status status = run("a", model).status();
  EXPECT_EQ(exitCode(status), ExitCode::Usage) << status.ToString();
}

TEST_F(TrainerTest, SamplesAreRepeatable) {
  Executable model = executable(trainingSection(4));
  std::string texts[2];
  for (int index = 0; index < 2; ++index) {
    std::unique_ptr<Device> device = *createCpuDevice(index + 1);
    TrainOptions options;
    options.dataFolder = data;
    options.runFolder = folder / concat("sample", index);
    options.sampleTokens = 20;
    options.samplePrompt = "The river";
    StatusOr<TrainReport> report = train(model, *device, options);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_FALSE(report->sampleBefore.empty());
    texts[index] = report->sampleBefore + "|" + report->sampleAfter;
  }
  EXPECT_EQ(texts[0], texts[1]);
}

} // namespace
} // namespace sluice
