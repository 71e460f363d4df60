#include "runtime/device/cudasim/driver/Device.h"

#include "runtime/device/cudasim/program/Decoder.h"
#include "runtime/device/cudasim/ptx/Parser.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace sluice::cudasim {

Device &Device::get() {
  // Never destroyed: a program may call the driver while it ends.
  static Device *device = new Device;
  return *device;
}

Device::Device() {
  if (const char *text = std::getenv("SLUICE_CUDASIM"))
    if (const Status status = applySettings(text, settings); !status.ok()) {
      message = std::string(status.message());
      std::fprintf(stderr, "SLUICE_CUDASIM: %s\n", message.c_str());
      sticky = CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult Device::fail(CUresult error, std::string text) {
  message = std::move(text);
  return error;
}

CUresult Device::ready() {
  if (!initialised)
    return fail(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  if (runsHostFunction)
    return fail(CUDA_ERROR_NOT_PERMITTED, "a host function may not call the driver");
  return sticky;
}

CUresult Device::initialise() {
  if (sticky != CUDA_SUCCESS || initialised)
    return sticky;
  StatusOr<std::unique_ptr<DeviceMemory>> created = DeviceMemory::create(settings.memory);
  if (!created.ok())
    return fail(CUDA_ERROR_OUT_OF_MEMORY, std::string(created.status().message()));
  deviceMemory = *std::move(created);
  work.seed(settings.seed);
  initialised = true;
  return CUDA_SUCCESS;
}

void Device::reset() {
  work.clear();
  executables.clear();
  graphs.clear();
  events.clear();
  streams.clear();
  modules.clear();
  described.clear();
  pinned.clear();
  defaultStream = {};
  deviceMemory.reset();
  pool.reset();
  findings.clear();
  statistics.clear();
  calls = {};
  label.clear();
  message.clear();
  sticky = CUDA_SUCCESS;
  initialised = false;
}

CUresult Device::loadModule(const char *image, CUmodule *result) {
  if (std::strncmp(image, "\177ELF", 4) == 0 || std::strncmp(image, "\x50\xed\x55\xba", 4) == 0)
    return fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                "the simulated device runs PTX; expected PTX text, found machine code of a GPU");
  const std::string file = "module" + std::to_string(modules.size()) + ".ptx";
  StatusOr<ptx::Module> parsed = ptx::parseModule(image, file);
  if (!parsed.ok())
    return fail(CUDA_ERROR_INVALID_PTX, std::string(parsed.status().message()));
  auto loaded = std::make_unique<CUmod_st>();
  SymbolAddresses symbols;
  const auto giveBack = [&] {
    for (const auto &[name, variable] : loaded->variables)
      deviceMemory->free(variable.first);
  };
  for (const ptx::Variable &variable : parsed->variables) {
    if (variable.space == ptx::Space::Shared || variable.bytes == 0)
      continue;
    const uint64_t address = deviceMemory->allocate(variable.bytes);
    if (address == 0 || variable.isExternal || loaded->variables.contains(variable.name)) {
      giveBack();
      return address == 0 ? fail(CUDA_ERROR_OUT_OF_MEMORY, "no room for variable '" + variable.name + "'")
                          : fail(CUDA_ERROR_INVALID_PTX,
                                 "variable '" + variable.name + "' is defined elsewhere or twice");
    }
    // What has no initial value is zero.
    std::memset(deviceMemory->host(address), 0, variable.bytes);
    if (!variable.initial.empty())
      std::memcpy(deviceMemory->host(address), variable.initial.data(), variable.initial.size());
    deviceMemory->markWritten(address, variable.bytes);
    symbols[variable.name] = address;
    loaded->variables[variable.name] = {address, variable.bytes};
  }
  for (const ptx::Function &function : parsed->functions) {
    if (!function.isEntry || !function.hasBody)
      continue;
    StatusOr<std::shared_ptr<const Kernel>> kernel = decodeKernel(*parsed, function, symbols);
    if (!kernel.ok()) {
      giveBack();
      return fail(CUDA_ERROR_INVALID_PTX, std::string(kernel.status().message()));
    }
    CUfunc_st &made = loaded->functions[function.name];
    made.kernel = *kernel;
    // The cubin of these kernels, not that of a later module with the same names.
    if (auto known = described.extract(function.name))
      made.assembled = std::move(known.mapped());
    // Without opting in a block has 48 KiB, static and dynamic.
    made.dynamicShared -= static_cast<int>(std::min<uint64_t>(staticShared(made), 48 * 1024));
  }
  loaded->ptxVersion = static_cast<int>(std::strtod(parsed->version.c_str(), nullptr) * 10 + 0.5);
  *result = loaded.get();
  modules[*result] = std::move(loaded);
  return CUDA_SUCCESS;
}

CUresult Device::describeKernels(std::string_view cubin) {
  StatusOr<std::vector<cuda::KernelResources>> kernels = cuda::readCubin(cubin, "a kernel image");
  if (!kernels.ok())
    return fail(CUDA_ERROR_INVALID_IMAGE, std::string(kernels.status().message()));
  // The first that fits counts, as it does for a driver that runs machine code.
  for (cuda::KernelResources &kernel : *kernels)
    described.try_emplace(kernel.name, kernel);
  return CUDA_SUCCESS;
}

CUresult Device::unloadModule(CUmodule module) {
  auto found = modules.find(module);
  if (found == modules.end())
    return fail(CUDA_ERROR_INVALID_HANDLE, "not a module");
  if (const CUresult error = synchronise(nullptr))
    return error;
  for (const auto &[name, variable] : module->variables)
    deviceMemory->free(variable.first);
  modules.erase(found);
  return CUDA_SUCCESS;
}

CUstream Device::stream(CUstream handle) {
  // 0, and the handles 1 and 2 of the legacy and the per-thread default stream.
  if (reinterpret_cast<uintptr_t>(handle) <= 2)
    return &defaultStream;
  return streams.contains(handle) ? handle : nullptr;
}

std::vector<OperationRef> Device::predecessors(const CUstream_st &stream) const {
  std::vector<OperationRef> after;
  const auto add = [&](const OperationRef &operation) {
    if (operation && !operation->done)
      after.push_back(operation);
  };
  add(stream.last);
  if (&stream == &defaultStream) {
    for (const auto &[handle, other] : streams)
      if ((other->flags & CU_STREAM_NON_BLOCKING) == 0)
        add(other->last);
  } else if ((stream.flags & CU_STREAM_NON_BLOCKING) == 0) {
    add(defaultStream.last);
  }
  return after;
}

CUresult Device::enqueue(CUstream stream, std::function<CUresult()> run) {
  if (!stream)
    return fail(CUDA_ERROR_INVALID_HANDLE, "not a stream");
  auto operation = std::make_shared<Operation>();
  operation->run = std::move(run);
  if (stream->invalidated)
    return fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                "the stream's capture was ended by a call that it does not allow");
  if (stream->capture) {
    operation->after = stream->captured;
    stream->captured = {operation};
    stream->capture->nodes.push_back(operation);
    return CUDA_SUCCESS;
  }
  if (stream == &defaultStream)
    if (const CUresult error = refuseInCapture())
      return error;
  operation->after = predecessors(*stream);
  stream->last = operation;
  work.add(operation);
  return CUDA_SUCCESS;
}

CUresult Device::synchronise(const OperationRef &target) {
  ++calls.hostWaits; // whether or not the work happens to be done already
  if (target && target->done)
    return CUDA_SUCCESS;
  return work.runUntil(target);
}

CUresult Device::refuseInCapture() {
  bool capturing = false;
  for (const auto &[handle, stream] : streams)
    if (stream->capture) {
      stream->invalidated = true;
      capturing = true;
    }
  return capturing
             ? fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "this call is not allowed while a stream captures")
             : CUDA_SUCCESS;
}

bool Device::holds(CUdeviceptr address, size_t bytes) const {
  return findAllocation(*deviceMemory->allocations(), address, bytes) != nullptr;
}

bool Device::isPinned(const void *pointer, size_t bytes) const {
  const auto *begin = static_cast<const uint8_t *>(pointer);
  auto after = pinned.upper_bound(begin);
  if (after == pinned.begin())
    return false;
  --after;
  const size_t offset = static_cast<size_t>(begin - after->first);
  return offset <= after->second.first && bytes <= after->second.first - offset;
}

} // namespace sluice::cudasim
