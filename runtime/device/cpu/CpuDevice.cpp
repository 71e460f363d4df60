#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/device/cpu/DerivedState.h"
#include "runtime/device/cpu/KernelImages.h"
#include "runtime/support/HostMemory.h"
#include "runtime/support/ThreadPool.h"

#include "absl/strings/str_join.h"

#include <set>

namespace sluice {
namespace cpu {
namespace {

class CpuProgram final : public DeviceProgram {
public:
  CpuProgram(ThreadPool &pool, std::vector<PreparedKernel> kernels, std::vector<std::string> names)
      : pool(pool), kernels(std::move(kernels)), names(std::move(names)) {}

  /// Allocates the scratch of every worker and the workspace, each as large as the neediest command asks.
  Status allocate() {
    uint64_t scratchBytes = 0, workspaceBytes = 0;
    for (const PreparedKernel &kernel : kernels) {
      scratchBytes = std::max(scratchBytes, kernel.scratchBytes);
      workspaceBytes = std::max(workspaceBytes, kernel.workspaceBytes);
    }
    for (int worker = 0; worker < pool.threads(); ++worker) {
      SLUICE_ASSIGN_OR_RETURN(HostBlock block, HostBlock::allocate(scratchBytes));
      scratch.push_back(std::move(block));
    }
    SLUICE_ASSIGN_OR_RETURN(workspace, HostBlock::allocate(workspaceBytes));
    return absl::OkStatus();
  }

  Status execute() override {
    // The list is in an order that respects the dependencies: prepare has checked that they point backwards.
    for (size_t index = 0; index < kernels.size(); ++index)
      SLUICE_RETURN_IF_ERROR(executeCommand(index));
    return absl::OkStatus();
  }

  Status executeCommand(size_t index) override {
    if (index >= kernels.size())
      return failure("cannot run command ", index, ": the program has ", kernels.size());
    std::atomic<bool> damage{false};
    for (const Stage &stage : kernels[index].stages)
      pool.forEach(stage.liveTiles ? stage.liveTiles() : stage.tiles, [&](int64_t tile, int worker) {
        stage.run({tile, worker, scratch[static_cast<size_t>(worker)].data(), workspace.data(), &damage});
      });
    if (takeProductFailure())
      return failure("command ", names[index],
                     ": oneDNN failed inside a product, most likely for lack of memory; use a smaller batch");
    if (damage)
      return badInputError("command ", names[index],
                           " met an id outside its table; check the data's vocabulary "
                           "against the model's");
    return absl::OkStatus();
  }

private:
  ThreadPool &pool;
  std::vector<PreparedKernel> kernels;
  std::vector<std::string> names;
  std::vector<HostBlock> scratch;
  HostBlock workspace;
};

/// Lists every unknown kind, missing kernel and dependency that does not point backwards, in one error.
Status checkCommands(absl::Span<const Command> commands, const LoadedKernels &kernels) {
  std::set<std::string> problems;
  for (size_t index = 0; index < commands.size(); ++index) {
    const Command &command = commands[index];
    if (!findKernel(command.kind))
      problems.insert(concat("unknown command kind '", command.kind, "' (first at '", command.origin, "')"));
    if (command.kind == "launch")
      if (auto name = command.text("kernel"); name.ok() && !kernels.contains(*name))
        problems.insert(concat("kernel '", *name, "' is in no loaded image"));
    for (uint32_t dependency : command.dependencies)
      if (dependency >= index)
        problems.insert(concat("command ", index, " of '", command.origin, "' depends on the later command ",
                               dependency));
  }
  if (problems.empty())
    return absl::OkStatus();
  return badInputError("the CPU device cannot prepare this program: ", absl::StrJoin(problems, "; "),
                       "; compile the executable again with this version");
}

class CpuDevice final : public Device {
public:
  explicit CpuDevice(int threads) : pool(threads) {}

  std::string name() const override { return "cpu"; }

  uint64_t availableMemory() const override { return availableHostMemory(); }

  StatusOr<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
    SLUICE_ASSIGN_OR_RETURN(HostBlock block, HostBlock::allocate(bytes));
    return std::unique_ptr<DeviceMemory>(std::make_unique<CpuMemory>(std::move(block)));
  }

  Status loadKernels(const KernelImage &image) override { return images.load(image); }

  StatusOr<std::unique_ptr<DeviceProgram>> prepare(absl::Span<const Command> commands,
                                                   absl::Span<DeviceMemory *const> arenas) override {
    SLUICE_RETURN_IF_ERROR(checkCommands(commands, images.kernels()));
    std::vector<PreparedKernel> kernels;
    std::vector<std::string> names;
    for (const Command &command : commands) {
      PrepareContext context{{command, arenas}, pool.threads(), derived, images.kernels()};
      SLUICE_ASSIGN_OR_RETURN(PreparedKernel kernel, findKernel(command.kind)(context));
      kernels.push_back(std::move(kernel));
      names.push_back(concat(command.kind, " of '", command.origin, "'"));
    }
    auto program = std::make_unique<CpuProgram>(pool, std::move(kernels), std::move(names));
    SLUICE_RETURN_IF_ERROR(program->allocate());
    SLUICE_RETURN_IF_ERROR(refreshDerivedState());
    return program;
  }

  bool skipsMaskedZeros(const MaskPattern &, bool fewEnough) const override { return fewEnough; }
  Status refreshDerivedState() override {
    pool.forEach(derived.tiles(), [&](int64_t tile, int worker) { derived.refresh(tile, worker); });
    return absl::OkStatus();
  }

private:
  ThreadPool pool;
  KernelImages images;
  DerivedState derived;
};

} // namespace
} // namespace cpu

StatusOr<std::unique_ptr<Device>> createCpuDevice(int threads) {
  if (threads < 1 || threads > 1024)
    return usageError("the CPU device needs 1 .. 1024 threads, found ", threads);
  return std::unique_ptr<Device>(std::make_unique<cpu::CpuDevice>(threads));
}

} // namespace sluice
