#include "runtime/device/cuda/Program.h"

namespace sluice::cuda {

CudaProgram::CudaProgram(std::shared_ptr<Context> context, std::vector<std::string> names)
    : context(std::move(context)), names(std::move(names)), graph(this->context, "the program") {}

Status CudaProgram::complete(std::vector<PreparedKernel> kernels) {
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

Status CudaProgram::add(size_t index, Launch &launch) {
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

void CudaProgram::chooseProduct(size_t index, const DenseProduct &product, ReadyLaunch &ready) {
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

Status CudaProgram::enqueue(size_t index) {
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

Status CudaProgram::enqueue() {
  for (size_t index = 0; index < commands.size(); ++index) {
    SLUICE_RETURN_IF_ERROR(enqueue(index));
    if (context->runsCommandsAlone())
      SLUICE_RETURN_IF_ERROR(context->waitForCommand(names[index]));
  }
  return absl::OkStatus();
}

size_t CudaProgram::launches() const {
  size_t count = 0;
  for (const std::vector<ReadyLaunch> &command : commands)
    count += command.size();
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
  if (index >= commands.size())
    return failure("cannot run command ", index, ": the program has ", commands.size());
  SLUICE_RETURN_IF_ERROR(context->enter());
  SLUICE_RETURN_IF_ERROR(enqueue(index));
  context->setLast(names[index], /*isCommand=*/true);
  return context->enqueueDamageCopy();
}

} // namespace sluice::cuda
