// Training on the simulated CUDA device against the CPU: twenty steps that each start from the CPU's state,
// twenty that go their own way, and the same bits whatever the order of blocks.
#include "tests/frontends/CudaModels.h"

#include "codegen/cuda/Nvrtc.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/LaunchPlan.h"
#include "runtime/device/cuda/ModuleArchive.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <regex>
#include <set>

namespace sluice::cli {
namespace {

constexpr int steps = 20;

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
  REQUIRE_OK(setInputs(cpu, step));
  REQUIRE_OK(setInputs(cuda, step));
  const std::vector<Command> &commands = cpu.description().entry("accumulate")->commands;
  for (size_t index = 0; index < commands.size(); ++index) {
    REQUIRE_OK(cpu.runCommand("accumulate", index));
    REQUIRE_OK(cuda.runCommand("accumulate", index));
    if (commands[index].kind != "route")
      continue;
    StatusOr<std::vector<int32_t>> want = chosen(cpu, commands[index]), got = chosen(cuda, commands[index]);
    REQUIRE_OK(want);
    REQUIRE_OK(got);
    EXPECT_EQ(*got, *want) << commands[index].origin;
    choices += want->size();
  }
}

void compareState(const Session &cpu, const Session &cuda, TensorRole role, double limit) {
  for (const StateTensor &tensor : cpu.description().tensors) {
    if (tensor.role != role)
      continue;
    StatusOr<std::string> want = cpu.readState(tensor.name), got = cuda.readState(tensor.name);
    REQUIRE_OK(want);
    REQUIRE_OK(got);
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
    REQUIRE_OK(made);
    executable.emplace(std::move(*made));
    StatusOr<std::unique_ptr<Device>> first = createCpuDevice(2),
                                      second = createCudaDevice(simulator, 0, "cuda-sim");
    REQUIRE_OK(first);
    REQUIRE_OK(second);
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
  REQUIRE_OK(reference);
  REQUIRE_OK(guided);
  REQUIRE_OK(free);
  REQUIRE_OK(reference->initialize(1));
  REQUIRE_OK(free->initialize(1));
  compareState(*reference, *free, TensorRole::Parameter, 1e-6);
  size_t choices = 0;
  double firstLoss = 0, lastLoss = 0;
  for (int step = 1; step <= steps; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    REQUIRE_OK(copyState(*reference, *guided));
    accumulateBoth(*reference, *guided, step, choices);
    StatusOr<float> want = reference->scalarOutput("accumulate", "loss_sum"),
                    got = guided->scalarOutput("accumulate", "loss_sum"),
                    tokens = reference->scalarOutput("accumulate", "tokens");
    REQUIRE_OK(want);
    REQUIRE_OK(got);
    REQUIRE_OK(tokens);
    EXPECT_NEAR(*got / *want, 1.0, 1e-5);
    compareState(*reference, *guided, TensorRole::Gradient, 1e-5);
    // AdamW's quotient magnifies the rounding of gradients near zero: it is compared from equal gradients.
    REQUIRE_OK(copyState(*reference, *guided));
    REQUIRE_OK(applyStep(*reference, step));
    REQUIRE_OK(applyStep(*guided, step));
    compareState(*reference, *guided, TensorRole::Parameter, 1e-5);
    StatusOr<double> loss = trainStep(*free, step);
    REQUIRE_OK(loss);
    lastLoss = static_cast<double>(*want) / *tokens;
    firstLoss = step == 1 ? lastLoss : firstLoss;
    EXPECT_NEAR(*loss / lastLoss, 1.0, 1e-3);
  }
  EXPECT_LT(lastLoss, firstLoss) << "nothing was learned";
  EXPECT_EQ(choices > 0, std::string(GetParam().name).find("Moe") == 0);
}

/// Of one target's image: no kernel spills, and each can be launched.
void expectNoSpills(const std::string &target, std::string_view image,
                    const std::vector<std::string> &names) {
  StatusOr<std::vector<cuda::ArchivedModule>> modules = cuda::readModuleArchive(image, target);
  REQUIRE_OK(modules);
  std::set<std::string> seen;
  for (const cuda::ArchivedModule &module : *modules) {
    StatusOr<std::vector<cuda::KernelResources>> kernels = cuda::readCubin(module.bytes, target);
    REQUIRE_OK(kernels);
    EXPECT_EQ(kernels->size(), module.kernels.size());
    for (const cuda::KernelResources &kernel : *kernels) {
      EXPECT_TRUE(seen.insert(kernel.name).second) << kernel.name;
      EXPECT_EQ(kernel.localBytes, 0) << target << " " << kernel.name;
      EXPECT_EQ(kernel.spills, 0) << target << " " << kernel.name;
      // What a thread may have, and a block of the kernel's own bound beside it.
      EXPECT_GE(kernel.registers, 8) << target << " " << kernel.name;
      EXPECT_LE(kernel.registers * std::max<int64_t>(kernel.maxThreads, 256), 65536)
          << target << " " << kernel.name;
      EXPECT_LE(kernel.sharedBytes, 48 * 1024) << target << " " << kernel.name;
    }
  }
  EXPECT_EQ(seen, std::set<std::string>(names.begin(), names.end()));
}

const std::vector<std::string> everyArchitecture = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100"};

/// Generated kernels and what such a model needs of the library, for every architecture that a tier may
/// declare.
TEST_P(CudaTrain, NoKernelSpills) {
  StatusOr<Executable> made = compileModel(GetParam(), everyArchitecture);
  REQUIRE_OK(made);
  std::vector<uint64_t> arenas;
  for (const ArenaDescription &arena : made->description.arenas)
    arenas.push_back(arena.bytes);
  std::set<std::string> launched;
  for (const EntryPoint &entry : made->description.entries) {
    StatusOr<std::vector<cuda::CommandLaunches>> planned = cuda::planLaunches(entry.commands, arenas);
    REQUIRE_OK(planned);
    for (const cuda::CommandLaunches &command : *planned)
      for (const cuda::Launch &launch : command.launches)
        launched.insert(launch.kernel);
  }
  size_t targets = 0;
  for (const KernelImageDescription &image : made->description.kernels)
    if (image.target.rfind("cuda:sm_", 0) == 0) {
      ++targets;
      expectNoSpills(image.target, image.image, image.kernels);
      EXPECT_EQ(std::set<std::string>(image.kernels.begin(), image.kernels.end()), launched)
          << "an executable holds the kernels that it launches, and no others";
    }
  EXPECT_EQ(targets, everyArchitecture.size());
}

TEST(CudaGenerated, ABarrierOfAGeneratedKernelIsNeeded) {
  StatusOr<Executable> made = compileModel({"dense", {}}, {"cuda:sm_80"});
  REQUIRE_OK(made);
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
  REQUIRE_OK(nvrtc);
  StatusOr<std::string> ptx = (*nvrtc)->compile({"unit.cu", unit}, "compute_80");
  REQUIRE_OK(ptx);
  for (bool removed : {false, true}) {
    simulatorFunction<void()>("cudasimClearFindings")();
    StatusOr<std::unique_ptr<Device>> device = createCudaDevice(simulator, 0, "cuda-sim");
    REQUIRE_OK(device);
    StatusOr<Session> session = Session::create(*made, **device);
    REQUIRE_OK(session);
    const std::string archive = cuda::writeModuleArchive({{{name[1].str()}, *ptx}});
    if (removed)
      REQUIRE_OK((*device)->loadKernels({"cuda:compute_80", archive}));
    REQUIRE_OK(session->initialize(1));
    configure("check=race;seed=0");
    REQUIRE_OK(trainStep(*session, 1));
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
  REQUIRE_OK(first);
  for (const char *settings : {"seed=1", "seed=2;threads=1", "check=all;seed=0"}) {
    SCOPED_TRACE(settings);
    configure(settings);
    StatusOr<std::string> again = stateAfter(*executable, *cuda, few);
    REQUIRE_OK(again);
    EXPECT_TRUE(*again == *first);
    EXPECT_EQ(findings(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaTrain, testing::ValuesIn(cudaModels()),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace sluice::cli
