// Training on the simulated CUDA device against the CPU: twenty steps that each start from the CPU's state,
// twenty that go their own way, and the same bits whatever the order of blocks.
#include "frontends/cli/Compiler.h"

#include "codegen/cuda/Nvrtc.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/executor/Session.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>

namespace sluice::cli {
namespace {

const std::string simulator = std::string(SLUICE_BINARY_DIR) + "/libsluice_cudasim.so";
constexpr int steps = 20;

const Status &statusOf(const Status &status) {
  return status;
}
template <typename T> const Status &statusOf(const StatusOr<T> &value) {
  return value.status();
}

#define ASSERT_OK(expression) ASSERT_TRUE(statusOf(expression).ok()) << statusOf(expression)

struct Model {
  const char *name;
  std::vector<std::string> settings; // of --set
  int launches;                      // of kernels in a step; products are cuBLASLt's
};

const std::string spec = R"(model:
  vocabulary: 61
  width: 24
  layers: 2
  heads: 4
  kv_heads: 2
  ffn: 40
train:
  batch: 2
  seq: 19
)";

StatusOr<Executable> compileModel(const Model &model, std::vector<std::string> targets) {
  const std::string path = testing::TempDir() + "/cuda-train.yaml";
  std::ofstream(path) << spec;
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler.load(path, model.settings));
  CompilerOptions options;
  options.cudaTargets = std::move(targets);
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(loaded, options));
  return parseExecutable(std::move(bytes), model.name);
}

template <typename Function> Function *simulatorFunction(const char *name) {
  static void *library = ::dlopen(simulator.c_str(), RTLD_NOW);
  return reinterpret_cast<Function *>(::dlsym(library, name));
}

/// Settings of the simulated driver (docs/cuda-simulator.md).
void configure(const std::string &settings) {
  ASSERT_EQ(simulatorFunction<int(const char *)>("cudasimConfigure")(settings.c_str()), 0) << settings;
}

std::string findings() {
  return simulatorFunction<const char *()>("cudasimFindings")();
}

/// The tokens of step `step`, and the targets; some are not counted.
struct Batch {
  std::vector<int32_t> tokens, targets;
  explicit Batch(int step, size_t count) {
    std::mt19937 generator(static_cast<unsigned>(step) * 97 + 5);
    int32_t token = 3;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(token);
      // Half of the text can be learned.
      token = static_cast<int32_t>(generator() % 2 ? (token * 7 + 11) % 61 : generator() % 61);
      targets.push_back(i % 9 == 8 ? -100 : token);
    }
  }
};

Status setInputs(Session &session, int step) {
  SLUICE_ASSIGN_OR_RETURN(const Operand *place, session.input("accumulate", "tokens"));
  const Batch batch(step, static_cast<size_t>(place->elements()));
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate", "tokens", batch.tokens));
  return session.setInput<int32_t>("accumulate", "targets", batch.targets);
}

Status applyStep(Session &session, int step) {
  SLUICE_ASSIGN_OR_RETURN(float tokens, session.scalarOutput("accumulate", "tokens"));
  const float rate = 1e-2f, number = static_cast<float>(step);
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "learning_rate", {&rate, 1}));
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "step", {&number, 1}));
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "tokens", {&tokens, 1}));
  return session.run("apply");
}

/// One whole step; returns the mean loss.
StatusOr<double> trainStep(Session &session, int step) {
  SLUICE_RETURN_IF_ERROR(setInputs(session, step));
  SLUICE_RETURN_IF_ERROR(session.run("accumulate"));
  SLUICE_ASSIGN_OR_RETURN(float sum, session.scalarOutput("accumulate", "loss_sum"));
  SLUICE_ASSIGN_OR_RETURN(float tokens, session.scalarOutput("accumulate", "tokens"));
  SLUICE_RETURN_IF_ERROR(applyStep(session, step));
  return static_cast<double>(sum) / tokens;
}

Status copyState(const Session &from, Session &to) {
  for (const StateTensor &tensor : from.description().tensors) {
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, from.readState(tensor.name));
    SLUICE_RETURN_IF_ERROR(to.writeState(tensor.name, bytes));
  }
  return absl::OkStatus();
}

std::vector<float> floatsOf(const std::string &bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double relativeError(const std::vector<float> &actual, const std::vector<float> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// The chosen experts of a route command: the first T K numbers of its buffer.
StatusOr<std::vector<int32_t>> chosen(const Session &session, const Command &command) {
  std::vector<int32_t> buffer(static_cast<size_t>(command.outputs[0].elements()));
  SLUICE_RETURN_IF_ERROR(
      session.readOperand(command.outputs[0], buffer.data(), buffer.size() * sizeof(int32_t)));
  buffer.resize(static_cast<size_t>(command.outputs[1].elements()));
  return buffer;
}

/// Runs entry point accumulate command by command on both, comparing every choice of experts.
void accumulateBoth(Session &cpu, Session &cuda, int step, size_t &choices) {
  ASSERT_OK(setInputs(cpu, step));
  ASSERT_OK(setInputs(cuda, step));
  const std::vector<Command> &commands = cpu.description().entry("accumulate")->commands;
  for (size_t index = 0; index < commands.size(); ++index) {
    ASSERT_OK(cpu.runCommand("accumulate", index));
    ASSERT_OK(cuda.runCommand("accumulate", index));
    if (commands[index].kind != "route")
      continue;
    StatusOr<std::vector<int32_t>> want = chosen(cpu, commands[index]), got = chosen(cuda, commands[index]);
    ASSERT_OK(want);
    ASSERT_OK(got);
    EXPECT_EQ(*got, *want) << commands[index].origin;
    choices += want->size();
  }
}

void compareState(const Session &cpu, const Session &cuda, TensorRole role, double limit) {
  for (const StateTensor &tensor : cpu.description().tensors) {
    if (tensor.role != role)
      continue;
    StatusOr<std::string> want = cpu.readState(tensor.name), got = cuda.readState(tensor.name);
    ASSERT_OK(want);
    ASSERT_OK(got);
    EXPECT_LE(relativeError(floatsOf(*got), floatsOf(*want)), limit) << tensor.name;
  }
}

/// All state as bytes, after `count` steps from seed 1.
StatusOr<std::string> stateAfter(const Executable &executable, Device &device, int count) {
  SLUICE_ASSIGN_OR_RETURN(Session session, Session::create(executable, device));
  SLUICE_RETURN_IF_ERROR(session.initialize(1));
  for (int step = 1; step <= count; ++step)
    SLUICE_RETURN_IF_ERROR(trainStep(session, step).status());
  std::string all;
  for (const StateTensor &tensor : session.description().tensors) {
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, session.readState(tensor.name));
    all += bytes;
  }
  return all;
}

class CudaTrain : public testing::TestWithParam<Model> {
protected:
  void SetUp() override {
    StatusOr<Executable> made = compileModel(GetParam(), {"cuda:sm_80"});
    ASSERT_OK(made);
    executable.emplace(std::move(*made));
    StatusOr<std::unique_ptr<Device>> first = createCpuDevice(2),
                                      second = createCudaDevice(simulator, 0, "cuda-sim");
    ASSERT_OK(first);
    ASSERT_OK(second);
    cpu = std::move(*first);
    cuda = std::move(*second);
    configure("check=none;seed=0");
  }

  std::optional<Executable> executable;
  std::unique_ptr<Device> cpu, cuda;
};

TEST_P(CudaTrain, EachStepFromTheCpusStateAndTwentyOnItsOwn) {
  StatusOr<Session> reference = Session::create(*executable, *cpu),
                    guided = Session::create(*executable, *cuda), free = Session::create(*executable, *cuda);
  ASSERT_OK(reference);
  ASSERT_OK(guided);
  ASSERT_OK(free);
  ASSERT_OK(reference->initialize(1));
  ASSERT_OK(free->initialize(1));
  compareState(*reference, *free, TensorRole::Parameter, 1e-6);
  size_t choices = 0;
  double firstLoss = 0, lastLoss = 0;
  for (int step = 1; step <= steps; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    ASSERT_OK(copyState(*reference, *guided));
    accumulateBoth(*reference, *guided, step, choices);
    StatusOr<float> want = reference->scalarOutput("accumulate", "loss_sum"),
                    got = guided->scalarOutput("accumulate", "loss_sum"),
                    tokens = reference->scalarOutput("accumulate", "tokens");
    ASSERT_OK(want);
    ASSERT_OK(got);
    ASSERT_OK(tokens);
    EXPECT_NEAR(*got / *want, 1.0, 1e-5);
    compareState(*reference, *guided, TensorRole::Gradient, 1e-5);
    // AdamW's quotient magnifies the rounding of gradients near zero: it is compared from equal gradients.
    ASSERT_OK(copyState(*reference, *guided));
    ASSERT_OK(applyStep(*reference, step));
    ASSERT_OK(applyStep(*guided, step));
    compareState(*reference, *guided, TensorRole::Parameter, 1e-5);
    StatusOr<double> loss = trainStep(*free, step);
    ASSERT_OK(loss);
    lastLoss = static_cast<double>(*want) / *tokens;
    firstLoss = step == 1 ? lastLoss : firstLoss;
    EXPECT_NEAR(*loss / lastLoss, 1.0, 1e-3);
  }
  EXPECT_LT(lastLoss, firstLoss) << "nothing was learned";
  EXPECT_EQ(choices > 0, std::string(GetParam().name).find("Moe") == 0);
}

/// Generated kernels and the library, for every architecture that a tier may declare.
TEST_P(CudaTrain, NoKernelSpills) {
  StatusOr<Executable> made = compileModel(GetParam(), {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100"});
  ASSERT_OK(made);
  size_t targets = 0;
  for (const KernelImageDescription &image : made->description.kernels) {
    if (image.target.rfind("cuda:sm_", 0) != 0)
      continue;
    ++targets;
    StatusOr<std::vector<cuda::ArchivedModule>> modules = cuda::readModuleArchive(image.image, image.target);
    ASSERT_OK(modules);
    std::set<std::string> seen;
    for (const cuda::ArchivedModule &module : *modules) {
      StatusOr<std::vector<cuda::KernelResources>> kernels = cuda::readCubin(module.bytes, image.target);
      ASSERT_OK(kernels);
      EXPECT_EQ(kernels->size(), module.kernels.size());
      for (const cuda::KernelResources &kernel : *kernels) {
        EXPECT_TRUE(seen.insert(kernel.name).second) << kernel.name;
        EXPECT_EQ(kernel.localBytes, 0) << image.target << " " << kernel.name;
        EXPECT_EQ(kernel.spills, 0) << image.target << " " << kernel.name;
        // What a thread may have, and a block of the kernel's own bound beside it.
        EXPECT_GE(kernel.registers, 8) << image.target << " " << kernel.name;
        EXPECT_LE(kernel.registers * std::max<int64_t>(kernel.maxThreads, 256), 65536)
            << image.target << " " << kernel.name;
        EXPECT_LE(kernel.sharedBytes, 48 * 1024) << image.target << " " << kernel.name;
      }
    }
    EXPECT_EQ(seen, std::set<std::string>(image.kernels.begin(), image.kernels.end()));
    EXPECT_GT(seen.size(), 40u);
  }
  EXPECT_EQ(targets, 3u);
}

/// The launches of one step, as counted at the version of NVRTC that the table names: a guard against
/// unnoticed change, no more. What AdamW moves is known: four arrays read and written, four numbers a block
/// of 1024.
TEST_P(CudaTrain, LaunchesOfAStep) {
  StatusOr<Session> session = Session::create(*executable, *cuda);
  ASSERT_OK(session);
  ASSERT_OK(session->initialize(1));
  ASSERT_OK(trainStep(*session, 1));
  configure("statistics=1");
  simulatorFunction<void()>("cudasimClearStatistics")();
  ASSERT_OK(trainStep(*session, 2));
  std::istringstream lines(simulatorFunction<const char *()>("cudasimStatistics")());
  configure("statistics=0");
  int launches = 0;
  int64_t loaded = 0, stored = 0;
  for (std::string line; std::getline(lines, line); ++launches)
    if (const auto record = nlohmann::json::parse(line); record["kernel"] == "adamw") {
      loaded += record["global_load_bytes"].get<int64_t>();
      stored += record["global_store_bytes"].get<int64_t>();
    }
  int64_t elements = 0, blocks = 0;
  for (const StateTensor &tensor : executable->description.tensors)
    if (tensor.role == TensorRole::Parameter) {
      elements += tensor.place.elements();
      blocks += (tensor.place.elements() + 1023) / 1024;
    }
  EXPECT_EQ(stored, 16 * elements);
  EXPECT_EQ(loaded, 16 * elements + 16 * blocks);
  StatusOr<std::shared_ptr<const cuda::Nvrtc>> nvrtc = cuda::Nvrtc::open();
  ASSERT_OK(nvrtc);
  if ((*nvrtc)->version() != 13000)
    GTEST_SKIP() << "the table is of NVRTC 13.0, found " << (*nvrtc)->version();
  EXPECT_EQ(launches, GetParam().launches);
}

TEST(CudaGenerated, ABarrierOfAGeneratedKernelIsNeeded) {
  StatusOr<Executable> made = compileModel({"dense", {}, 0}, {"cuda:sm_80"});
  ASSERT_OK(made);
  std::string source;
  for (const KernelImageDescription &image : made->description.kernels)
    source += image.source;
  // The first unit with a barrier of its own: sums over rows, eight rows side by side.
  const size_t shared = source.find("__shared__ float parts");
  ASSERT_NE(shared, std::string::npos);
  const size_t begin = source.rfind("#include", shared), end = source.find("\n}\n", shared) + 3;
  std::string unit = source.substr(begin, end - begin);
  const std::string barrier = "__syncthreads();";
  ASSERT_NE(unit.find(barrier), std::string::npos);
  unit.replace(unit.find(barrier), barrier.size(), "");
  std::smatch name;
  ASSERT_TRUE(std::regex_search(unit, name, std::regex(R"(void (\w+)\()")));
  StatusOr<std::shared_ptr<const cuda::Nvrtc>> nvrtc = cuda::Nvrtc::open();
  ASSERT_OK(nvrtc);
  StatusOr<std::string> ptx = (*nvrtc)->compile({"unit.cu", unit}, "compute_80");
  ASSERT_OK(ptx);
  for (bool removed : {false, true}) {
    simulatorFunction<void()>("cudasimClearFindings")();
    StatusOr<std::unique_ptr<Device>> device = createCudaDevice(simulator, 0, "cuda-sim");
    ASSERT_OK(device);
    StatusOr<Session> session = Session::create(*made, **device);
    ASSERT_OK(session);
    const std::string archive = cuda::writeModuleArchive({{{name[1].str()}, *ptx}});
    if (removed)
      ASSERT_OK((*device)->loadKernels({"cuda:compute_80", archive}));
    ASSERT_OK(session->initialize(1));
    configure("check=race;seed=0");
    ASSERT_OK(trainStep(*session, 1));
    configure("check=none");
    EXPECT_EQ(findings().find("race: kernel '" + name[1].str() + "' at unit.cu:") != std::string::npos,
              removed)
        << findings();
  }
  simulatorFunction<void()>("cudasimClearFindings")();
}

TEST_P(CudaTrain, SameBitsInAnyOrder) {
  constexpr int few = 2;
  StatusOr<std::string> first = stateAfter(*executable, *cuda, few);
  ASSERT_OK(first);
  for (const char *settings : {"seed=1", "seed=2;threads=1", "check=all;seed=0"}) {
    SCOPED_TRACE(settings);
    configure(settings);
    StatusOr<std::string> again = stateAfter(*executable, *cuda, few);
    ASSERT_OK(again);
    EXPECT_TRUE(*again == *first);
    EXPECT_EQ(findings(), "");
  }
}

const std::vector<std::string> four = {"model.moe.experts=4", "model.moe.top_k=2", "model.moe.ffn=20",
                                       "losses.balance=0.01", "losses.router_z=0.001"},
                               sixteen = {"model.moe.experts=16", "model.moe.top_k=4",
                                          "model.moe.ffn=12",     "model.moe.shared_ffn=20",
                                          "losses.balance=0.01",  "losses.router_z=0.001"};

std::vector<std::string> with(std::vector<std::string> settings, const std::string &one) {
  settings.push_back(one);
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaTrain,
                         testing::Values(Model{"DenseTied", {"model.tied=true"}, 83},
                                         Model{"DenseUntied", {"model.tied=false"}, 85},
                                         Model{"MoeFourTied", with(four, "model.tied=true"), 133},
                                         Model{"MoeFourUntied", with(four, "model.tied=false"), 135},
                                         Model{"MoeSixteenSharedTied", with(sixteen, "model.tied=true"), 151},
                                         Model{"MoeSixteenSharedUntied", with(sixteen, "model.tied=false"),
                                               153}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace sluice::cli
