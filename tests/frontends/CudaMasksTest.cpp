// Masked models on the simulated CUDA device against the CPU: the same masks at the start and after every
// update made from equal weights and gradients; losses, gradients and steps within the limits of unmasked
// training; the same bits in any order of blocks.
#include "frontends/cli/Compiler.h"

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/LaunchPlan.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Masks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>

namespace sluice::cli {
namespace {

const std::string simulator = std::string(SLUICE_BINARY_DIR) + "/libsluice_cudasim.so";

const Status &statusOf(const Status &status) {
  return status;
}
template <typename T> const Status &statusOf(const StatusOr<T> &value) {
  return value.status();
}
#define ASSERT_OK(expression) ASSERT_TRUE(statusOf(expression).ok()) << statusOf(expression)

const std::string model = R"(
  vocabulary: 61
  layers: 2
  heads: 4
  kv_heads: 2
  moe:
    experts: 3
    top_k: 2
    ffn: 16
train:
  batch: 2
  seq: 19
)";

struct Case {
  const char *name, *sparsity;
  int width = 24;
};

StatusOr<Executable> compileModel(const Case &c) {
  const std::string path = testing::TempDir() + "/cuda-masks-" + c.name + ".yaml";
  std::ofstream(path) << "model:\n  width: " << c.width << model << "sparsity:\n" << c.sparsity;
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler.load(path, {}));
  CompilerOptions options;
  options.cudaTargets = {"cuda:sm_80"};
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(loaded, options));
  return parseExecutable(std::move(bytes), c.name);
}

void configure(const std::string &settings) {
  static void *library = ::dlopen(simulator.c_str(), RTLD_NOW);
  auto *function = reinterpret_cast<int (*)(const char *)>(::dlsym(library, "cudasimConfigure"));
  ASSERT_EQ(function(settings.c_str()), 0) << settings;
}

Status accumulate(Session &session, const std::string &entry, int step) {
  std::vector<int32_t> tokens, targets;
  std::mt19937 generator(static_cast<unsigned>(step));
  for (int i = 0; i < 2 * 19; ++i) {
    tokens.push_back(static_cast<int32_t>(generator() % 61));
    targets.push_back(static_cast<int32_t>(generator() % 61));
  }
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>(entry, "tokens", tokens));
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>(entry, "targets", targets));
  return session.run(entry);
}

Status apply(Session &session, int step) {
  const float rate = 1e-2f, number = static_cast<float>(step), tokens = 38;
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "learning_rate", {&rate, 1}));
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "step", {&number, 1}));
  SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "tokens", {&tokens, 1}));
  return session.run("apply");
}

Status update(Session &session, int step) {
  const int64_t seed = 1, at = step, amount = 250000000, removed = 250000000 * static_cast<int64_t>(step);
  for (auto [name, value] :
       {std::pair("seed", &seed), {"step", &at}, {"amount", &amount}, {"removed", &removed}})
    SLUICE_RETURN_IF_ERROR(session.setInput<int64_t>("update_topology", name, absl::MakeConstSpan(value, 1)));
  return session.run("update_topology");
}

Status copyState(const Session &from, Session &to) {
  for (const StateTensor &tensor : from.description().tensors) {
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, from.readState(tensor.name));
    SLUICE_RETURN_IF_ERROR(to.writeState(tensor.name, bytes));
  }
  return absl::OkStatus();
}

/// The two losses of the last accumulation agree.
void compareLosses(const Session &cpu, const Session &cuda, const std::string &entry) {
  StatusOr<float> want = cpu.scalarOutput(entry, "loss_sum"), got = cuda.scalarOutput(entry, "loss_sum");
  ASSERT_OK(want);
  ASSERT_OK(got);
  EXPECT_NEAR(*got / *want, 1.0, 1e-5);
}

/// Every state of type float32 agrees within `limit`, the others in every bit; with limit 0 all do.
void compare(const Session &cpu, const Session &cuda, double limit) {
  for (const StateTensor &tensor : cpu.description().tensors) {
    StatusOr<std::string> want = cpu.readState(tensor.name), got = cuda.readState(tensor.name);
    ASSERT_OK(want);
    ASSERT_OK(got);
    if (limit == 0 || tensor.place.type != ElementType::F32) {
      EXPECT_TRUE(*got == *want) << tensor.name;
      continue;
    }
    double difference = 0, norm = 0;
    for (size_t i = 0; i + 4 <= want->size(); i += 4) {
      float a, b;
      std::memcpy(&a, want->data() + i, 4);
      std::memcpy(&b, got->data() + i, 4);
      difference += std::pow(double(a) - b, 2), norm += double(a) * a;
    }
    EXPECT_LE(std::sqrt(difference), limit * std::sqrt(norm)) << tensor.name;
  }
}

/// The same executable on the CPU and on the simulated device, both with the weights of one seed.
struct BothDevices {
  std::unique_ptr<Device> host, device;
  std::optional<Session> cpu, cuda;

  void open(const Executable &executable) {
    configure("check=none;seed=0");
    StatusOr<std::unique_ptr<Device>> onHost = createCpuDevice(1),
                                      simulated = createCudaDevice(simulator, 0, "cuda-sim");
    ASSERT_OK(onHost);
    ASSERT_OK(simulated);
    host = std::move(*onHost), device = std::move(*simulated);
    StatusOr<Session> first = Session::create(executable, *host),
                      second = Session::create(executable, *device);
    ASSERT_OK(first);
    ASSERT_OK(second);
    cpu.emplace(std::move(*first)), cuda.emplace(std::move(*second));
    ASSERT_OK(cpu->initialize(1));
    ASSERT_OK(cuda->initialize(1));
  }
};

class CudaMasks : public testing::TestWithParam<Case> {};

TEST_P(CudaMasks, MoveAsOnTheCpu) {
  StatusOr<Executable> executable = compileModel(GetParam());
  ASSERT_OK(executable);
  BothDevices both;
  ASSERT_NO_FATAL_FAILURE(both.open(*executable));
  std::optional<Session> &cpu = both.cpu, &cuda = both.cuda;
  compare(*cpu, *cuda, 1e-6);
  const std::string entry = cpu->has("accumulate_dense") ? "accumulate_dense" : "accumulate";
  StatusOr<std::vector<ModelMask>> masks = modelMasks(executable->description);
  ASSERT_OK(masks);
  ASSERT_EQ(masks->size(), 14u);
  for (int step = 1; step <= 3; ++step) {
    SCOPED_TRACE(step);
    ASSERT_OK(copyState(*cpu, *cuda));
    ASSERT_OK(accumulate(*cpu, entry, step));
    ASSERT_OK(accumulate(*cuda, entry, step));
    compareLosses(*cpu, *cuda, entry);
    compare(*cpu, *cuda, 1e-5);
    ASSERT_OK(copyState(*cpu, *cuda));
    ASSERT_OK(apply(*cpu, step));
    ASSERT_OK(apply(*cuda, step));
    compare(*cpu, *cuda, 1e-5);
    ASSERT_OK(copyState(*cpu, *cuda));
    std::vector<std::string> before;
    for (const ModelMask &mask : *masks)
      before.push_back(*cpu->readState(mask.name));
    ASSERT_OK(update(*cpu, step));
    ASSERT_OK(update(*cuda, step));
    compare(*cpu, *cuda, 0); // an update keeps or zeroes: all bits of all states
    ASSERT_OK(checkMaskedStates(*cuda, "after the update"));
    bool moved = false;
    for (size_t k = 0; k < masks->size(); ++k)
      moved |= before[k] != *cuda->readState((*masks)[k].name);
    EXPECT_TRUE(moved);
  }
  // The same bits in another order, without a finding.
  ASSERT_OK(copyState(*cpu, *cuda));
  ASSERT_OK(apply(*cuda, 4));
  ASSERT_OK(update(*cuda, 4));
  configure("check=all;seed=3");
  StatusOr<Session> again = Session::create(*executable, *both.device);
  ASSERT_OK(again);
  ASSERT_OK(copyState(*cpu, *again));
  ASSERT_OK(apply(*again, 4));
  ASSERT_OK(update(*again, 4));
  compare(*cuda, *again, 0);
  auto *findings =
      reinterpret_cast<const char *(*)()>(::dlsym(::dlopen(simulator.c_str(), RTLD_NOW), "cudasimFindings"));
  EXPECT_STREQ(findings(), "");
  configure("check=none;seed=0");
}

/// Both devices on their own from the same start, with an update of the masks after every second step.
TEST(CudaMaskBlocks, TrainAsOnTheCpu) {
  StatusOr<Executable> executable = compileModel(
      {"TrainedBlocks",
       "  targets: [attention, experts]\n  density: 0.5\n  method: set\n  pattern:\n    block: [16, 16]\n",
       32});
  ASSERT_OK(executable);
  BothDevices both;
  ASSERT_NO_FATAL_FAILURE(both.open(*executable));
  std::optional<Session> &cpu = both.cpu, &cuda = both.cuda;
  StatusOr<std::vector<ModelMask>> masks = modelMasks(executable->description);
  ASSERT_OK(masks);
  std::string start, end;
  for (int step = 1; step <= 6; ++step) {
    SCOPED_TRACE(step);
    for (Session *session : {&*cpu, &*cuda})
      ASSERT_OK(accumulate(*session, "accumulate", step));
    compareLosses(*cpu, *cuda, "accumulate");
    for (Session *session : {&*cpu, &*cuda}) {
      ASSERT_OK(apply(*session, step));
      if (step % 2 == 0)
        ASSERT_OK(update(*session, step));
    }
    end.clear();
    for (const ModelMask &mask : *masks) {
      StatusOr<std::string> want = cpu->readState(mask.name), got = cuda->readState(mask.name);
      ASSERT_OK(want);
      ASSERT_OK(got);
      EXPECT_TRUE(*got == *want) << mask.name;
      end += *got;
    }
    if (step == 1)
      start = end;
    ASSERT_OK(checkMaskedStates(*cuda, "after the step"));
  }
  EXPECT_NE(start, end) << "the masks never moved";
}

/// Every masked product of such a model runs over its blocks, and none does where blocks are too small for
/// the tiles.
TEST(CudaMaskBlocks, AreMultipliedWhereTilesFit) {
  for (const auto &[name, block, fits] :
       {std::tuple{"FittingBlocks", "[16, 16]", true}, {"SmallBlocks", "[16, 8]", false}}) {
    const std::string sparsity =
        std::string("  targets: [attention, experts]\n  density: 0.5\n  pattern:\n    block: ") + block +
        "\n";
    StatusOr<Executable> executable = compileModel({name, sparsity.c_str(), 32});
    ASSERT_OK(executable);
    std::vector<uint64_t> arenas;
    for (const ArenaDescription &arena : executable->description.arenas)
      arenas.push_back(arena.bytes);
    int products = 0;
    for (const EntryPoint &entry : executable->description.entries) {
      StatusOr<std::vector<cuda::CommandLaunches>> planned = cuda::planLaunches(entry.commands, arenas);
      ASSERT_OK(planned);
      for (size_t index = 0; index < entry.commands.size(); ++index) {
        const std::string &kind = entry.commands[index].kind;
        if (kind != "masked_gemm" && kind != "masked_weight_gradient" && kind != "masked_grouped_gemm" &&
            kind != "masked_grouped_weight_gradient")
          continue;
        ++products;
        const std::string kernel = (*planned)[index].launches.back().kernel;
        EXPECT_EQ(kernel.rfind("block_", 0) == 0, fits) << kind << " " << kernel;
      }
    }
    EXPECT_GE(products, 3 * 14); // of each matrix in training, and more in eval and logits
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, CudaMasks,
    testing::Values(
        Case{"Set",
             "  targets: [attention, experts]\n  density: 0.3\n  method: set\n  regrown:\n    step: 5\n"
             "    ramp: 20\n"},
        Case{"Soft",
             "  targets: [attention, experts]\n  density: 0.3\n  method: set\n  update:\n    drop: soft\n"},
        Case{"RiglBlocks", "  targets: [attention, experts]\n  density: 0.5\n  method: rigl\n  pattern:\n"
                           "    block: [2, 4]\n  regrown:\n    step: 5\n"},
        Case{"SetTileBlocks",
             "  targets: [attention, experts]\n  density: 0.5\n  method: set\n  pattern:\n    block: [16, "
             "16]\n",
             32},
        Case{"PrunedTileBlocks",
             "  targets: [attention, experts]\n  density: 0.5\n  method: gradual\n  pattern:\n    block: "
             "[16, 16]\n",
             64},
        Case{"SignedNOfM", "  targets: [attention, experts]\n  density: 0.5\n  method: rigl\n  pattern:\n"
                           "    n: 2\n    m: 4\n  update:\n    drop: signed\n"},
        Case{"Rules",
             "  - targets: [attention]\n    density: 0.5\n    method: gradual\n    pattern:\n"
             "      n: 2\n      m: 4\n  - targets: [experts]\n    density: 0.2\n    method: gradual\n"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace sluice::cli
