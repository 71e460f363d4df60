#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/LaunchPlan.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/device/cuda/Readback.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"

#include <set>

namespace sluice {
namespace cuda {
namespace {

/// A launch whose function is found and whose parameters lie at their final places.
struct ReadyLaunch {
  CUfunction function;
  unsigned grid[3], threads;
  std::vector<std::byte> bytes;
  std::vector<void *> parameters;
  std::shared_ptr<const BlasProduct> product; // instead of the kernel, where cuBLASLt computes it
};

class CudaProgram final : public DeviceProgram {
public:
  CudaProgram(std::shared_ptr<Context> context, std::vector<std::string> names)
      : context(std::move(context)), names(std::move(names)) {}

  ~CudaProgram() override {
    if (replay && context->enter().ok())
      context->api().graphExecDestroy(replay);
  }

  /// Allocates the workspace, as large as the neediest command asks, and completes the launches. Commands run
  /// one after the other on one stream, so they share it.
  Status complete(std::vector<PreparedKernel> kernels) {
    uint64_t bytes = 0;
    for (const PreparedKernel &kernel : kernels)
      bytes = std::max(bytes, kernel.workspaceBytes);
    SLUICE_ASSIGN_OR_RETURN(workspace, CudaMemory::allocate(context, bytes));
    for (size_t index = 0; index < kernels.size(); ++index) {
      commands.emplace_back();
      for (Launch &launch : kernels[index].launches)
        if (launch.grid[0] * launch.grid[1] * launch.grid[2] > 0)
          SLUICE_RETURN_IF_ERROR(add(index, launch));
      for (std::unique_ptr<CudaMemory> &memory : kernels[index].constants)
        constants.push_back(std::move(memory));
    }
    SLUICE_ASSIGN_OR_RETURN(blasWorkspace, CudaMemory::allocate(context, blasBytes));
    return absl::OkStatus();
  }

  Status execute() override {
    SLUICE_RETURN_IF_ERROR(context->enter());
    if (!replay)
      SLUICE_RETURN_IF_ERROR(capture());
    const Driver &api = context->api();
    return api.check(api.graphLaunch(replay, context->stream), "replaying the program");
  }

  Status executeCommand(size_t index) override {
    if (index >= commands.size())
      return failure("cannot run command ", index, ": the program has ", commands.size());
    SLUICE_RETURN_IF_ERROR(context->enter());
    SLUICE_RETURN_IF_ERROR(enqueue(index));
    return context->enqueueDamageCopy(names[index]);
  }

private:
  Status add(size_t index, Launch &launch) {
    auto found = context->kernels.find(launch.kernel);
    if (found == context->kernels.end())
      return badInputError("command ", names[index], ": kernel '", launch.kernel,
                           "' is in no loaded image; compile the executable again with this version");
    if (launch.grid[0] > INT32_MAX || launch.grid[1] > 65535 || launch.grid[2] > 65535)
      return failure("command ", names[index], ": kernel '", launch.kernel, "' needs a grid of ",
                     launch.grid[0], " x ", launch.grid[1], " x ", launch.grid[2],
                     " blocks, more than CUDA allows; use a smaller batch");
    auto patch = [&](size_t parameter, std::byte *base) {
      uint64_t offset;
      std::memcpy(&offset, launch.bytes.data() + launch.places[parameter], sizeof offset);
      std::byte *address = base + offset;
      std::memcpy(launch.bytes.data() + launch.places[parameter], &address, sizeof address);
    };
    for (size_t parameter : launch.relocations)
      patch(parameter, workspace->address());
    for (size_t parameter : launch.damages)
      patch(parameter, context->damageFlag());
    ReadyLaunch ready{found->second, {}, launch.threads, std::move(launch.bytes), {}};
    for (int i = 0; i < 3; ++i)
      ready.grid[i] = static_cast<unsigned>(launch.grid[i]);
    for (size_t place : launch.places)
      ready.parameters.push_back(ready.bytes.data() + place);
    if (launch.product && context->blas)
      chooseProduct(index, *launch.product, ready);
    commands[index].push_back(std::move(ready));
    return absl::OkStatus();
  }

  void chooseProduct(size_t index, const DenseProduct &product, ReadyLaunch &ready) {
    CUdeviceptr places[4]; // C, A, B, bias
    for (size_t i = 0; i < 4; ++i)
      std::memcpy(&places[i], ready.parameters[i], sizeof places[i]);
    if (places[3] == 0)
      ready.product = context->blas->plan(product, places[0], places[1], places[2]);
    if (!ready.product)
      return;
    blasBytes = std::max(blasBytes, Blas::workspaceBytes(*ready.product));
    context->choices.push_back(concat(names[index], ": ", context->blas->describe(*ready.product)));
  }

  Status enqueue(size_t index) {
    const Driver &api = context->api();
    if (api.label)
      api.label(names[index].c_str());
    for (ReadyLaunch &launch : commands[index]) {
      if (launch.product) {
        SLUICE_RETURN_IF_ERROR(context->blas->enqueue(*launch.product,
                                                      reinterpret_cast<CUdeviceptr>(blasWorkspace->address()),
                                                      context->stream, names[index]));
        continue;
      }
      SLUICE_RETURN_IF_ERROR(api.check(api.launchKernel(launch.function, launch.grid[0], launch.grid[1],
                                                        launch.grid[2], launch.threads, 1, 1, 0,
                                                        context->stream, launch.parameters.data(), nullptr),
                                       names[index]));
    }
    return absl::OkStatus();
  }

  Status capture() {
    const Driver &api = context->api();
    SLUICE_RETURN_IF_ERROR(
        api.check(api.streamBeginCapture(context->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "capturing the program"));
    Status status;
    for (size_t index = 0; index < commands.size() && status.ok(); ++index)
      status = enqueue(index);
    if (status.ok())
      status = context->enqueueDamageCopy("running the program");
    CUgraph graph = nullptr;
    Status ended = api.check(api.streamEndCapture(context->stream, &graph), "capturing the program");
    SLUICE_RETURN_IF_ERROR(status);
    SLUICE_RETURN_IF_ERROR(ended);
    status = api.check(api.graphInstantiate(&replay, graph, 0), "instantiating the program");
    api.graphDestroy(graph);
    return status;
  }

  std::shared_ptr<Context> context;
  std::vector<std::string> names;
  std::vector<std::vector<ReadyLaunch>> commands;
  std::unique_ptr<CudaMemory> workspace, blasWorkspace;
  uint64_t blasBytes = 0;
  std::vector<std::unique_ptr<CudaMemory>> constants;
  CUgraphExec replay = nullptr;
};

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

  StatusOr<std::unique_ptr<DeviceReadback>> createReadback(uint64_t bytes) override {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaReadback> readback, CudaReadback::create(context, bytes));
    return std::unique_ptr<DeviceReadback>(std::move(readback));
  }

  Status loadKernels(const KernelImage &image) override {
    if (Status status = checkTarget(image.target); !status.ok())
      return status;
    SLUICE_ASSIGN_OR_RETURN(std::vector<ArchivedModule> modules,
                            readModuleArchive(image.bytes, image.target));
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
    auto program = std::make_unique<CudaProgram>(context, std::move(names));
    SLUICE_RETURN_IF_ERROR(program->complete(std::move(kernels)));
    return program;
  }

  Status refreshDerivedState() override { return absl::OkStatus(); }

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
  /// "cuda:sm_80" runs on 8.x with x >= 0; "cuda:compute_80" is PTX, which any later device compiles.
  Status checkTarget(const std::string &target) const {
    const bool assembled = absl::StartsWith(target, "cuda:sm_");
    const bool portable = absl::StartsWith(target, "cuda:compute_");
    int version = 0;
    if ((!assembled && !portable) || !absl::SimpleAtoi(target.substr(target.find('_') + 1), &version))
      return badInputError("kernel image for '", target, "': expected cuda:sm_N or cuda:compute_N");
    const int own = 10 * context->major + context->minor;
    if (assembled ? version / 10 == context->major && version <= own : version <= own)
      return absl::OkStatus();
    return failure("kernel image for ", target, " does not run on ", context->deviceName,
                   " of compute capability ", context->major, ".", context->minor);
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
