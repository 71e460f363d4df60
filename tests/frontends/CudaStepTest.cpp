// Whole training steps on the simulated CUDA device, as numbers: launches and nodes, bytes that kernels move,
// conflicts of banks.
#include "tests/frontends/CudaCounts.h"

#include "codegen/cuda/Nvrtc.h"
#include "frontends/cli/Conformance.h"
#include "frontends/cli/SimulatorChecks.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <map>
#include <set>

namespace sluice::cli {
namespace {

class CudaCounts : public testing::TestWithParam<Model> {
protected:
  void SetUp() override {
    configure("check=none;seed=0");
    StatusOr<Executable> made = compileModel(GetParam(), {"cuda:sm_80"});
    REQUIRE_OK(made);
    executable.emplace(std::move(*made));
    StatusOr<std::unique_ptr<Device>> opened = createCudaDevice(simulator, 0, "cuda-sim");
    REQUIRE_OK(opened);
    device = std::move(*opened);
    StatusOr<Session> created = Session::create(*executable, *device);
    REQUIRE_OK(created);
    session.emplace(std::move(*created));
    REQUIRE_OK(session->initialize(1));
    REQUIRE_OK(trainStep(*session, 1));
    configure("statistics=1");
    clearCounts();
  }
  void TearDown() override { configure("statistics=0"); }

  std::optional<Executable> executable;
  std::unique_ptr<Device> device;
  std::optional<Session> session;
};

/// Launches of kernels, and nodes of graphs: kernels, products of cuBLASLt, copies.
struct StepCounts {
  size_t launches;
  int nodes;
};

/// A guard against unnoticed change, no more: by version of NVRTC, which may join kernels or split them.
TEST_P(CudaCounts, LaunchesAndNodesOfAStep) {
  static const std::map<int, std::map<std::string, StepCounts>> goldens = {
      {13000,
       {{"DenseTied", {48, 95}},
        {"DenseUntied", {48, 95}},
        {"MoeFourTied", {94, 129}},
        {"MoeFourUntied", {94, 129}},
        {"MoeSixteenSharedTied", {100, 153}},
        {"MoeSixteenSharedUntied", {100, 153}}}}};
  REQUIRE_OK(trainStep(*session, 2));
  StatusOr<std::shared_ptr<const cuda::Nvrtc>> nvrtc = cuda::Nvrtc::open();
  REQUIRE_OK(nvrtc);
  EXPECT_EQ(calls()["graph_launches"], 2);
  const auto golden = goldens.find((*nvrtc)->version());
  if (golden == goldens.end())
    GTEST_SKIP() << "no table for NVRTC " << (*nvrtc)->version();
  const StepCounts &want = golden->second.at(GetParam().name);
  EXPECT_EQ(launches().size(), want.launches);
  EXPECT_EQ(calls()["graph_nodes"], want.nodes);
}

/// Every kernel that is bound by memory touches the bytes of its command's operands, all of them and no
/// others: what the plan and the ledger declare.
TEST_P(CudaCounts, KernelsMoveTheBytesOfTheirOperands) {
  const std::set<std::string> bound = {"launch", "adamw", "copy", "transpose", "slice",
                                       "concat", "fill",  "rope", "combine"};
  REQUIRE_OK(setInputs(*session, 2));
  int checked = 0, byFours = 0;
  for (const char *entry : {"accumulate", "apply"}) {
    const std::vector<Command> &commands = executable->description.entry(entry)->commands;
    for (size_t index = 0; index < commands.size(); ++index) {
      const Command &command = commands[index];
      clearCounts();
      REQUIRE_OK(session->runCommand(entry, index));
      REQUIRE_OK(settle(*session));
      if (!bound.contains(command.kind))
        continue;
      SCOPED_TRACE(concat(entry, " ", index, ": ", command.kind, " of '", command.origin, "'"));
      uint64_t loaded = 0, stored = 0;
      for (const nlohmann::json &launch : launches()) {
        loaded += launch["distinct_load_bytes"].get<uint64_t>();
        stored += launch["distinct_store_bytes"].get<uint64_t>();
      }
      // Beside its operand, rope reads two tables of sequence x half a head.
      const int64_t tables =
          command.kind == "rope"
              ? 4 * executable->description.entry("accumulate")->inputs[0].operand.shape[1] *
                    command.integerOr("head_dim", 0)
              : 0;
      EXPECT_EQ(loaded, command.inputBytes() + static_cast<uint64_t>(tables));
      EXPECT_EQ(stored, command.outputBytes());
      // Lines whose length is a multiple of four go by 16 bytes a lane, so 512 a warp.
      const int64_t length = command.integerOr("rows", 0) * command.integerOr("columns", 0);
      std::vector<Operand> operands = command.inputs;
      operands.insert(operands.end(), command.outputs.begin(), command.outputs.end());
      if (command.kind == "launch" && *command.text("domain") == "line" && length % 4 == 0 &&
          std::all_of(operands.begin(), operands.end(),
                      [&](const Operand &operand) { return operand.elements() == length; })) {
        ASSERT_EQ(launches().size(), 1u);
        EXPECT_EQ(launches()[0]["global_requests"],
                  static_cast<int64_t>(operands.size()) * ((length + 127) / 128));
        ++byFours;
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
  EXPECT_GT(byFours, 0);
}

/// Every kernel of ours that uses shared memory claims that no two lanes meet in a bank, but for those that
/// count ids by digit: the ids decide where they meet.
TEST_P(CudaCounts, NoBankConflicts) {
  ::setenv("SLUICE_CUBLASLT", "none", 1); // so that our own product runs too
  StatusOr<std::unique_ptr<Device>> own = createCudaDevice(simulator, 0, "cuda-sim");
  ::unsetenv("SLUICE_CUBLASLT");
  REQUIRE_OK(own);
  StatusOr<Session> trained = Session::create(*executable, **own);
  REQUIRE_OK(trained);
  REQUIRE_OK(trained->initialize(1));
  clearCounts();
  REQUIRE_OK(trainStep(*trained, 2));
  REQUIRE_OK(settle(*trained));
  std::set<std::string> shared;
  for (const nlohmann::json &launch : launches()) {
    const std::string kernel = launch["kernel"];
    if (kernel != "count_digits" && kernel != "place_by_digit") {
      EXPECT_EQ(launch["bank_conflicts"], 0) << kernel;
    }
    if (launch["shared_wavefronts"] > 0)
      shared.insert(launch["kernel"]);
  }
  EXPECT_TRUE(shared.contains("gemm"));
  EXPECT_EQ(shared.contains("experts_up"), executable->description.entry("accumulate")->outputs.size() > 2);
}

TEST(SimulatorChecks, FindingsNameKernelLineAndOp) {
  configure("check=none;seed=0");
  EXPECT_EQ(exitCode(startChecks(simulator, "memroy")), ExitCode::Usage);
  EXPECT_EQ(exitCode(startChecks(simulator, "race;seed=1")), ExitCode::Usage);
  EXPECT_EQ(exitCode(startChecks("/nowhere/libcuda.so", "race")), ExitCode::Failure);
  StatusOr<std::string> ptx = readFile(std::string(SLUICE_TEST_DATA) + "/cudasim/faults.ptx");
  REQUIRE_OK(ptx);
  StatusOr<std::unique_ptr<Device>> device = createCudaDevice(simulator, 0, "cuda-sim");
  REQUIRE_OK(device);
  REQUIRE_OK(
      (*device)->loadKernels({"cuda:compute_80", cuda::writeModuleArchive({{{"lanesCollideHere"}, *ptx}})}));
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(256);
  REQUIRE_OK(memory);
  // A generated kernel of one row: y[0] gets another value from every lane.
  const Operand y{ElementType::F32, {1, 32}, 0, 0};
  const std::vector<Command> commands = {{"launch",
                                          "layers.0.norm",
                                          {},
                                          {y},
                                          {{"kernel", std::string("lanesCollideHere")},
                                           {"domain", std::string("rows")},
                                           {"rows", int64_t{1}},
                                           {"columns", int64_t{32}}},
                                          {}}};
  DeviceMemory *const arenas[] = {memory->get()};
  for (bool race : {false, true}) {
    REQUIRE_OK(startChecks(simulator, race ? "race" : "memory"));
    StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
    REQUIRE_OK(program);
    REQUIRE_OK((*program)->execute());
    float value = 0;
    REQUIRE_OK((*memory)->read(0, &value, 4));
    Status outcome = finishChecks(simulator);
    ASSERT_EQ(outcome.ok(), !race) << outcome;
    if (race) {
      EXPECT_EQ(exitCode(outcome), ExitCode::Failure);
      const std::string text(outcome.message());
      EXPECT_NE(text.find("race: kernel 'lanesCollideHere' at faults.cu:"), std::string::npos) << text;
      EXPECT_NE(text.find("in command launch of 'layers.0.norm'"), std::string::npos) << text;
    }
  }
  configure("check=none");
  simulatorFunction<void()>("cudasimClearFindings")();
}

/// The CPU with another beta1 and wider initial values.
class AlteredDevice final : public Device {
public:
  explicit AlteredDevice(std::unique_ptr<Device> real) : real(std::move(real)) {}
  std::string name() const override { return real->name(); }
  StatusOr<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override { return real->allocate(bytes); }
  Status loadKernels(const KernelImage &image) override { return real->loadKernels(image); }
  StatusOr<std::unique_ptr<DeviceProgram>> prepare(absl::Span<const Command> commands,
                                                   absl::Span<DeviceMemory *const> arenas) override {
    std::vector<Command> altered(commands.begin(), commands.end());
    for (Command &command : altered)
      for (CommandAttribute &attribute : command.attributes)
        if (attribute.name == "beta1" || attribute.name == "standard_deviation")
          attribute.value = std::get<double>(attribute.value) * 1.0001;
    return real->prepare(altered, arenas);
  }
  Status refreshDerivedState() override { return real->refreshDerivedState(); }

private:
  std::unique_ptr<Device> real;
};

TEST(Conformance, NamesTheKindsThatDiffer) {
  StatusOr<Executable> executable = compileModel({"dense", {}}, {});
  REQUIRE_OK(executable);
  StatusOr<std::unique_ptr<Device>> cpu = createCpuDevice(1), other = createCpuDevice(2);
  REQUIRE_OK(cpu);
  REQUIRE_OK(other);
  StatusOr<std::vector<ConformanceRow>> rows = checkConformance(*executable, **cpu, **other, 1);
  REQUIRE_OK(rows);
  EXPECT_GT(rows->size(), 8u);
  for (const ConformanceRow &row : *rows)
    EXPECT_EQ(row.worst, 0.0) << row.kind << ": the same bits on any number of threads";
  StatusOr<std::unique_ptr<Device>> inner = createCpuDevice(2);
  REQUIRE_OK(inner);
  AlteredDevice altered(std::move(*inner));
  rows = checkConformance(*executable, **cpu, altered, 1);
  REQUIRE_OK(rows);
  std::set<std::string> differing;
  for (const ConformanceRow &row : *rows)
    if (!row.conforms()) {
      differing.insert(row.kind);
      EXPECT_NE(row.where, "");
    }
  EXPECT_EQ(differing, (std::set<std::string>{"adamw", "random_normal"}));
  EXPECT_NE(conformanceTable(*rows).find("DIFFERS"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaCounts, testing::ValuesIn(cudaModels()),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace sluice::cli
