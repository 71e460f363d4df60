// The published small models: logits, loss, gradients and twelve training steps, in the interpreter and on
// the CPU.
#include "frontends/cli/Exec.h"

#include "runtime/checkpoint/TensorConversion.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

namespace sluice::cli {
namespace {

const Status &statusOf(const Status &status) {
  return status;
}
template <typename T> const Status &statusOf(const StatusOr<T> &value) {
  return value.status();
}

#define ASSERT_OK(expression) ASSERT_TRUE(statusOf(expression).ok()) << statusOf(expression)

/// One fixture folder: the model, its weights, and what a public library computed with them in float64.
struct Fixture {
  std::string folder;
  WeightFiles weights;
  ExecWeights execWeights; // the same, as exec takes them
  SafetensorsFile reference;
  ExecInputs inputs;

  static StatusOr<Fixture> open(const std::string &name) {
    Fixture fixture;
    fixture.folder = std::string(SLUICE_TEST_DATA) + "/" + name;
    SLUICE_ASSIGN_OR_RETURN(fixture.weights, WeightFiles::open(fixture.folder + "/model.safetensors"));
    SLUICE_ASSIGN_OR_RETURN(fixture.execWeights,
                            ExecWeights::open(fixture.folder + "/model.safetensors", ""));
    SLUICE_ASSIGN_OR_RETURN(fixture.reference, SafetensorsFile::open(fixture.folder + "/io.safetensors"));
    SLUICE_ASSIGN_OR_RETURN(fixture.inputs, ExecInputs::read(fixture.folder + "/io.safetensors"));
    return fixture;
  }
};

double relativeError(const std::vector<double> &actual, const std::vector<double> &expected) {
  if (actual.size() != expected.size())
    return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// Every reference tensor (logits, loss, gradients) is there and within `limit`; nothing else carries a
/// gradient.
void compare(const Fixture &fixture, const ExecOutputs &outputs, double limit) {
  std::map<std::string, const ExecTensor *> byName;
  for (const ExecTensor &tensor : outputs)
    byName[tensor.name] = &tensor;
  size_t compared = 0;
  for (const TensorView &expected : fixture.reference.tensors()) {
    if (expected.name == "tokens" || expected.name == "targets" || expected.name == "train_losses")
      continue;
    ASSERT_TRUE(byName.count(expected.name)) << expected.name;
    StatusOr<std::vector<double>> values = toFloat64(expected);
    ASSERT_OK(values);
    EXPECT_LE(relativeError(byName[expected.name]->values, *values), limit) << expected.name;
    ++compared;
  }
  for (const auto &[name, tensor] : byName)
    if (name.rfind("grad/", 0) == 0)
      EXPECT_NE(fixture.reference.find(name), nullptr) << name;
  EXPECT_GT(compared, 15u);
}

void interpreterAgrees(const char *name) {
  StatusOr<Fixture> fixture = Fixture::open(name);
  ASSERT_OK(fixture);
  for (Phase after : {Phase::Differentiate, Phase::FuseExperts, Phase::Plan}) {
    SCOPED_TRACE(phaseName(after).str());
    Compiler compiler;
    StatusOr<LoadedModel> model = compiler.load(fixture->folder);
    ASSERT_OK(model);
    StatusOr<ExecOutputs> outputs =
        execInterpreter(compiler, std::move(*model), fixture->execWeights, fixture->inputs,
                        /*gradients=*/true, after, /*simulateArenas=*/after == Phase::Plan);
    ASSERT_OK(outputs);
    compare(*fixture, *outputs, 1e-6);
  }
}

void deviceAgrees(const char *name, StatusOr<std::unique_ptr<Device>> device) {
  StatusOr<Fixture> fixture = Fixture::open(name);
  ASSERT_OK(fixture);
  ASSERT_OK(device);
  Compiler compiler;
  StatusOr<LoadedModel> model = compiler.load(fixture->folder);
  ASSERT_OK(model);
  StatusOr<ExecOutputs> outputs =
      execDevice(compiler, std::move(*model), fixture->execWeights, fixture->inputs,
                 /*gradients=*/true, **device);
  ASSERT_OK(outputs);
  compare(*fixture, *outputs, 1e-5);
}

void everyCommandAgrees(const char *name) {
  // Routing buffers are integers and must be equal, so this also says that expert ids agree.
  StatusOr<Fixture> fixture = Fixture::open(name);
  ASSERT_OK(fixture);
  StatusOr<std::unique_ptr<Device>> device = createCpuDevice(2);
  ASSERT_OK(device);
  Compiler compiler;
  StatusOr<LoadedModel> model = compiler.load(fixture->folder);
  ASSERT_OK(model);
  StatusOr<BisectReport> report =
      execBisect(compiler, std::move(*model), fixture->execWeights, fixture->inputs, 1e-5, **device);
  ASSERT_OK(report);
  EXPECT_EQ(report->command, "") << "error " << report->error;
  EXPECT_GT(report->compared, 20u);
}

class Fixtures : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Models, Fixtures,
                         testing::Values("llama-gqa-tied", "mixtral-4x-top2", "olmoe-16x-top4",
                                         "qwen2moe-shared"),
                         [](const auto &info) { return std::string(info.param, 5); });

/// Tiny models of the Hugging Face families (tests/data/make_families.py, make_moe_families.py).
class Families : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Models, Families,
                         testing::Values("deepseekv2-groups", "deepseekv3-bias-groups", "gemma2", "gpt-neox",
                                         "gpt-neox-sequential", "gpt2", "gptoss-sinks", "llama-linear",
                                         "llama-llama3", "llama-yarn", "mistral-window", "olmo",
                                         "qwen2-windows", "qwen3", "qwen3moe-sparse-step"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Fixtures, InterpreterAgreesAfterDifferentiateAndAfterPlan) {
  interpreterAgrees(GetParam());
}
TEST_P(Families, InterpreterAgreesAfterDifferentiateAndAfterPlan) {
  interpreterAgrees(GetParam());
}

TEST_P(Fixtures, CpuAgrees) {
  deviceAgrees(GetParam(), createCpuDevice(2));
}
TEST_P(Families, CpuAgrees) {
  deviceAgrees(GetParam(), createCpuDevice(2));
}

StatusOr<std::unique_ptr<Device>> simulatedCuda() {
  return createCudaDevice(std::string(SLUICE_BINARY_DIR) + "/libsluice_cudasim.so", 0, "cuda-sim");
}
TEST_P(Fixtures, SimulatedCudaAgrees) {
  deviceAgrees(GetParam(), simulatedCuda());
}
TEST_P(Families, SimulatedCudaAgrees) {
  deviceAgrees(GetParam(), simulatedCuda());
}

TEST_P(Fixtures, EveryCommandAgreesWithTheInterpreter) {
  everyCommandAgrees(GetParam());
}
TEST_P(Families, EveryCommandAgreesWithTheInterpreter) {
  everyCommandAgrees(GetParam());
}

TEST_P(Fixtures, TwelveTrainingStepsAndTheWeightsThatLeave) {
  StatusOr<Fixture> fixture = Fixture::open(GetParam());
  ASSERT_OK(fixture);
  StatusOr<std::unique_ptr<Device>> device = createCpuDevice(2);
  ASSERT_OK(device);
  Compiler compiler;
  StatusOr<LoadedModel> model = compiler.load(fixture->folder);
  ASSERT_OK(model);
  CompilerOptions options;
  options.bindings = concat("batch=", fixture->inputs.batch, ",seq=", fixture->inputs.sequence);
  StatusOr<std::string> bytes = compiler.compile(*model, options);
  ASSERT_OK(bytes);
  StatusOr<Executable> executable = parseExecutable(std::move(*bytes), "the compiled model");
  ASSERT_OK(executable);
  StatusOr<Session> session = Session::create(*executable, **device);
  ASSERT_OK(session);
  ASSERT_OK(
      importModel(*session, [&](std::string_view name) { return fixture->weights.find(name); }, "weights"));

  // Published weights leave as they came, bit for bit.
  std::string folder = testing::TempDir() + "/export-" + GetParam();
  std::filesystem::remove_all(folder);
  ASSERT_OK(exportModel(*session, folder));
  StatusOr<WeightFiles> exported = WeightFiles::open(folder);
  ASSERT_OK(exported);
  ASSERT_EQ(exported->names(), fixture->weights.names());
  for (const std::string &name : exported->names()) {
    const TensorView *before = fixture->weights.find(name), *after = exported->find(name);
    ASSERT_EQ(before->shape, after->shape) << name;
    EXPECT_EQ(std::string_view(reinterpret_cast<const char *>(before->data), before->bytes),
              std::string_view(reinterpret_cast<const char *>(after->data), after->bytes))
        << name;
  }

  StatusOr<std::vector<double>> losses = toFloat64(*fixture->reference.find("train_losses"));
  ASSERT_OK(losses);
  ASSERT_EQ(losses->size(), 12u);
  for (int step = 1; step <= 12; ++step) {
    ASSERT_OK(session->setInput<int32_t>("accumulate", "tokens", fixture->inputs.tokens));
    ASSERT_OK(session->setInput<int32_t>("accumulate", "targets", fixture->inputs.targets));
    ASSERT_OK(session->run("accumulate"));
    StatusOr<float> sum = session->scalarOutput("accumulate", "loss_sum");
    StatusOr<float> tokens = session->scalarOutput("accumulate", "tokens");
    ASSERT_OK(sum);
    ASSERT_OK(tokens);
    EXPECT_NEAR(static_cast<double>(*sum) / *tokens / (*losses)[static_cast<size_t>(step - 1)], 1.0, 1e-4)
        << "step " << step;
    float rate = 1e-3f, number = static_cast<float>(step);
    ASSERT_OK(session->setInput<float>("apply", "learning_rate", {&rate, 1}));
    ASSERT_OK(session->setInput<float>("apply", "step", {&number, 1}));
    ASSERT_OK(session->setInput<float>("apply", "tokens", {&*tokens, 1}));
    ASSERT_OK(session->run("apply"));
  }
}

} // namespace
} // namespace sluice::cli
