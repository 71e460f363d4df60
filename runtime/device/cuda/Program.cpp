#include "runtime/device/cuda/Program.h"

#include "runtime/device/cuda/TensorList.h"

namespace sluice::cuda {

CudaProgram::CudaProgram(std::shared_ptr<Context> context)
    : context(std::move(context)), graph(this->context, "the program") {}

Status CudaProgram::complete(std::vector<PreparedKernel> kernels, const std::vector<std::string> &names) {
  uint64_t bytes = 0;
  for (const PreparedKernel &kernel : kernels)
    bytes = std::max(bytes, kernel.workspaceBytes);
  SLUICE_ASSIGN_OR_RETURN(workspace, CudaMemory::allocate(context, bytes));
  std::vector<std::vector<Launch>> launches;
  for (size_t index = 0; index < kernels.size(); ++index) {
    alone.push_back({names[index], {}});
    for (const Launch &launch : kernels[index].launches)
      SLUICE_RETURN_IF_ERROR(add(alone.back(), launch));
    launches.push_back(std::move(kernels[index].launches));
    for (std::unique_ptr<CudaMemory> &memory : kernels[index].constants)
      constants.push_back(std::move(memory));
  }
  JoinedLaunches joined = joinNeighbours(std::move(launches));
  for (size_t index = 0; index < kernels.size(); ++index) {
    if (joined.shares[index] == 1)
      together.push_back(alone[index]);
    if (joined.shares[index] <= 1)
      continue;
    together.push_back({concat(names[index], " and ", joined.shares[index] - 1, " more like it"), {}});
    for (Launch &launch : joined.launches[index])
      SLUICE_RETURN_IF_ERROR(add(together.back(), std::move(launch)));
  }
  SLUICE_ASSIGN_OR_RETURN(blasWorkspace, CudaMemory::allocate(context, blasBytes));
  return absl::OkStatus();
}

Status CudaProgram::add(Step &step, Launch launch) {
  if (launch.grid[0] * launch.grid[1] * launch.grid[2] == 0)
    return absl::OkStatus();
  auto found = context->kernels.find(launch.kernel);
  if (found == context->kernels.end())
    return badInputError("command ", step.name, ": kernel '", launch.kernel,
                         "' is in no loaded image; compile the executable again with this version");
  if (launch.grid[0] > INT32_MAX || launch.grid[1] > 65535 || launch.grid[2] > 65535)
    return failure("command ", step.name, ": kernel '", launch.kernel, "' needs a grid of ", launch.grid[0],
                   " x ", launch.grid[1], " x ", launch.grid[2],
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
  ReadyLaunch ready{found->second, {}, launch.threads, std::move(launch.bytes), std::move(launch.places), {}};
  for (int i = 0; i < 3; ++i)
    ready.grid[i] = static_cast<unsigned>(launch.grid[i]);
  if (launch.product && context->blas)
    chooseProduct(step.name, *launch.product, ready);
  step.launches.push_back(std::move(ready));
  return absl::OkStatus();
}

void CudaProgram::chooseProduct(const std::string &name, const DenseProduct &product, ReadyLaunch &ready) {
  CUdeviceptr places[4]; // C, A, B, bias
  for (size_t i = 0; i < 4; ++i)
    std::memcpy(&places[i], ready.bytes.data() + ready.places[i], sizeof places[i]);
  if (places[3] == 0)
    ready.product = context->blas->plan(product, places[0], places[1], places[2]);
  if (!ready.product)
    return;
  blasBytes = std::max(blasBytes, Blas::workspaceBytes(*ready.product));
  context->choices.push_back(concat(name, ": ", context->blas->describe(*ready.product)));
}

Status CudaProgram::enqueue(const Step &step) {
  const Driver &api = context->api();
  if (api.label && !step.launches.empty())
    api.label(step.name.c_str());
  for (const ReadyLaunch &launch : step.launches) {
    if (launch.product) {
      SLUICE_RETURN_IF_ERROR(context->blas->enqueue(*launch.product,
                                                    reinterpret_cast<CUdeviceptr>(blasWorkspace->address()),
                                                    context->stream, step.name));
      continue;
    }
    std::vector<void *> parameters;
    parameters.reserve(launch.places.size());
    for (size_t place : launch.places)
      parameters.push_back(const_cast<std::byte *>(launch.bytes.data() + place));
    SLUICE_RETURN_IF_ERROR(
        api.check(api.launchKernel(launch.function, launch.grid[0], launch.grid[1], launch.grid[2],
                                   launch.threads, 1, 1, 0, context->stream, parameters.data(), nullptr),
                  step.name));
  }
  return absl::OkStatus();
}

Status CudaProgram::enqueue() {
  if (!context->runsCommandsAlone()) {
    for (const Step &step : together)
      SLUICE_RETURN_IF_ERROR(enqueue(step));
    return absl::OkStatus();
  }
  for (const Step &step : alone) {
    SLUICE_RETURN_IF_ERROR(enqueue(step));
    SLUICE_RETURN_IF_ERROR(context->waitForCommand(step.name));
  }
  return absl::OkStatus();
}

size_t CudaProgram::launches() const {
  size_t count = 0;
  for (const Step &step : together)
    count += step.launches.size();
  return count;
}

Status CudaProgram::execute() {
  SLUICE_RETURN_IF_ERROR(context->enter());
  if (context->runsCommandsAlone())
    return enqueue();
  if (!graph.isCaptured())
    SLUICE_RETURN_IF_ERROR(graph.capture([this]() -> Status {
      SLUICE_RETURN_IF_ERROR(enqueue());
      return context->enqueueDamageCopy();
    }));
  context->setLast("running the program", /*isCommand=*/false);
  return graph.launch();
}

Status CudaProgram::executeCommand(size_t index) {
  if (index >= alone.size())
    return failure("cannot run command ", index, ": the program has ", alone.size());
  SLUICE_RETURN_IF_ERROR(context->enter());
  SLUICE_RETURN_IF_ERROR(enqueue(alone[index]));
  context->setLast(alone[index].name, /*isCommand=*/true);
  return context->enqueueDamageCopy();
}

} // namespace sluice::cuda
