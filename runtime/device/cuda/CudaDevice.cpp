#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/abi/MaskBlocks.h"
#include "runtime/device/MaskPattern.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/LaunchPlan.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/device/cuda/Program.h"
#include "runtime/device/cuda/Sequence.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include <set>

namespace sluice {
namespace cuda {
namespace {

/// Lists every unknown kind and dependency that does not point backwards, in one error.
Status checkCommands(absl::Span<const Command> commands, const std::string &device) {
  std::set<std::string> problems;
  for (size_t index = 0; index < commands.size(); ++index) {
    if (!findKernel(commands[index].kind))
      problems.insert(concat("unknown command kind '", commands[index].kind, "' (first at '",
                             commands[index].origin, "')"));
    for (uint32_t dependency : commands[index].dependencies)
      if (dependency >= index)
        problems.insert(concat("command ", index, " of '", commands[index].origin,
                               "' depends on the later command ", dependency));
  }
  if (problems.empty())
    return absl::OkStatus();
  return badInputError("device ", device, " cannot prepare this program: ", absl::StrJoin(problems, "; "),
                       "; compile the executable again with this version");
}

class CudaDevice final : public Device {
public:
  CudaDevice(std::shared_ptr<Context> context, std::string name)
      : context(std::move(context)), ownName(std::move(name)) {}

  std::string name() const override { return ownName; }

  uint64_t availableMemory() const override {
    size_t available = 0, total = 0;
    if (!context->enter().ok() || context->api().memoryGetInfo(&available, &total) != CUDA_SUCCESS)
      return 0;
    return available;
  }

  StatusOr<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaMemory> memory, CudaMemory::allocate(context, bytes));
    return std::unique_ptr<DeviceMemory>(std::move(memory));
  }

  StatusOr<std::unique_ptr<DeviceSequence>>
  createSequence(std::string name, absl::Span<const SequenceStep> steps, uint64_t roomBytes) override {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaSequence> sequence,
                            CudaSequence::create(context, std::move(name), steps, roomBytes));
    return std::unique_ptr<DeviceSequence>(std::move(sequence));
  }

  Status loadKernels(const KernelImage &image) override {
    if (Status status = checkTarget(image.target); !status.ok())
      return status;
    SLUICE_ASSIGN_OR_RETURN(std::vector<ArchivedModule> modules,
                            readModuleArchive(image.bytes, image.target));
    const Driver &api = context->api();
    if (api.machineCode && isAssembled(image.target)) {
      for (const ArchivedModule &module : modules)
        SLUICE_RETURN_IF_ERROR(
            api.check(api.machineCode(module.bytes.data(), module.bytes.size()), "reading " + image.target));
      return failure("kernel image for ", image.target, ": ", context->deviceName, " runs PTX");
    }
    for (const ArchivedModule &module : modules)
      SLUICE_RETURN_IF_ERROR(context->loadModule(module.bytes, module.kernels));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<DeviceProgram>> prepare(absl::Span<const Command> commands,
                                                   absl::Span<DeviceMemory *const> arenas) override {
    SLUICE_RETURN_IF_ERROR(checkCommands(commands, ownName));
    std::vector<PreparedKernel> kernels;
    std::vector<std::string> names;
    for (const Command &command : commands) {
      PrepareContext prepare{{command, arenas}, context};
      SLUICE_ASSIGN_OR_RETURN(PreparedKernel kernel, findKernel(command.kind)(prepare));
      kernels.push_back(std::move(kernel));
      names.push_back(concat("command ", command.kind, " of '", command.origin, "'"));
    }
    auto program = std::make_unique<CudaProgram>(context);
    SLUICE_RETURN_IF_ERROR(program->complete(std::move(kernels), names));
    return program;
  }

  Status refreshDerivedState() override { return absl::OkStatus(); }

  bool skipsMaskedZeros(const MaskPattern &pattern, bool) const override {
    return hasBlockProducts(pattern.blockRows, pattern.blockColumns);
  }

  StatusOr<uint64_t> workspaceBytes(absl::Span<const Command> commands,
                                    absl::Span<const uint64_t> arenaBytes) const override {
    SLUICE_ASSIGN_OR_RETURN(std::vector<CommandLaunches> planned, planLaunches(commands, arenaBytes));
    uint64_t bytes = 0;
    bool multiplies = false;
    for (const CommandLaunches &command : planned) {
      bytes = std::max(bytes, command.workspaceBytes);
      for (const Launch &launch : command.launches)
        multiplies = multiplies || launch.product.has_value();
    }
    // Which algorithm cuBLASLt takes is known when its operands have places: the most that it may want.
    return bytes + (multiplies && context->blas ? Blas::workspaceLimit : 0);
  }

  std::vector<std::string> choices() const override { return context->choices; }

private:
  static bool isAssembled(const std::string &target) { return absl::StartsWith(target, "cuda:sm_"); }

  /// "cuda:sm_80" runs on 8.x with x >= 0, and so does "cuda:sm_80f"; "cuda:sm_90a" on 9.0 alone;
  /// "cuda:compute_80" is PTX, which any later device compiles.
  Status checkTarget(const std::string &target) const {
    const bool portable = absl::StartsWith(target, "cuda:compute_");
    absl::string_view number = absl::string_view(target).substr(target.find('_') + 1);
    const bool isExact = absl::ConsumeSuffix(&number, "a");
    if (!isExact)
      absl::ConsumeSuffix(&number, "f");
    int version = 0;
    if ((!isAssembled(target) && !portable) || !absl::SimpleAtoi(number, &version))
      return badInputError("kernel image for '", target, "': expected cuda:sm_N or cuda:compute_N");
    const int own = 10 * context->major + context->minor;
    if (isExact               ? version == own
        : isAssembled(target) ? version / 10 == context->major && version <= own
                              : version <= own)
      return absl::OkStatus();
    return failure("kernel image for ", target, " does not run on ", context->deviceName,
                   " of compute capability ", context->major, ".", context->minor,
                   "; compile with --target cuda:sm_", own,
                   context->api().machineCode ? concat(", or set SLUICE_CUDASIM=arch=", version) : "");
  }

  std::shared_ptr<Context> context;
  std::string ownName;
};

} // namespace
} // namespace cuda

StatusOr<std::unique_ptr<Device>> createCudaDevice(const std::string &library, int ordinal,
                                                   const std::string &name) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::Driver> driver, cuda::Driver::open(library));
  return createCudaDevice(std::move(driver), ordinal, name);
}

StatusOr<std::unique_ptr<Device>> createCudaDevice(std::shared_ptr<const cuda::Driver> driver, int ordinal,
                                                   const std::string &name) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<cuda::Context> context,
                          cuda::Context::create(std::move(driver), ordinal));
  return std::unique_ptr<Device>(std::make_unique<cuda::CudaDevice>(std::move(context), name));
}

} // namespace sluice
