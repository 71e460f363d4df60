#include "runtime/device/cuda/Context.h"

#include <array>

namespace sluice::cuda {

StatusOr<std::shared_ptr<Context>> Context::create(std::shared_ptr<const Driver> driver, int ordinal) {
  const Driver &api = *driver;
  int count = 0;
  SLUICE_RETURN_IF_ERROR(api.check(api.deviceGetCount(&count), "counting CUDA devices"));
  if (ordinal < 0 || ordinal >= count)
    return failure("--device cuda:", ordinal, ": expected one of the ", count,
                   " CUDA devices of this machine");
  std::shared_ptr<Context> result(new Context(std::move(driver)));
  SLUICE_RETURN_IF_ERROR(api.check(api.deviceGet(&result->device, ordinal), "opening a CUDA device"));
  std::array<char, 256> name{};
  SLUICE_RETURN_IF_ERROR(
      api.check(api.deviceGetName(name.data(), static_cast<int>(name.size()) - 1, result->device),
                "naming a CUDA device"));
  result->deviceName = name.data();
  SLUICE_RETURN_IF_ERROR(
      api.check(api.deviceGetAttribute(&result->major, ComputeCapabilityMajor, result->device),
                "asking a CUDA device's compute capability"));
  SLUICE_RETURN_IF_ERROR(
      api.check(api.deviceGetAttribute(&result->minor, ComputeCapabilityMinor, result->device),
                "asking a CUDA device's compute capability"));
  SLUICE_RETURN_IF_ERROR(api.check(api.primaryContextRetain(&result->context, result->device),
                                   concat("starting ", result->deviceName)));
  SLUICE_RETURN_IF_ERROR(result->enter());
  SLUICE_RETURN_IF_ERROR(
      api.check(api.streamCreate(&result->stream, streamNonBlocking), "creating a CUDA stream"));
  return result;
}

Context::~Context() {
  if (!context || !enter().ok())
    return;
  for (CUmodule module : modules)
    driver->moduleUnload(module);
  if (stream)
    driver->streamDestroy(stream);
  driver->primaryContextRelease(device);
}

Status Context::loadModule(const std::string &bytes, const std::vector<std::string> &names) {
  SLUICE_RETURN_IF_ERROR(enter());
  CUmodule module = nullptr;
  SLUICE_RETURN_IF_ERROR(
      driver->check(driver->moduleLoadData(&module, bytes.c_str()), "loading CUDA kernels"));
  modules.push_back(module);
  for (const std::string &name : names) {
    CUfunction function = nullptr;
    SLUICE_RETURN_IF_ERROR(driver->check(driver->moduleGetFunction(&function, module, name.c_str()),
                                         concat("finding CUDA kernel '", name, "'")));
    kernels[name] = function;
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::allocate(std::shared_ptr<Context> context, uint64_t bytes) {
  SLUICE_RETURN_IF_ERROR(context->enter());
  const Driver &api = context->api();
  CUdeviceptr pointer = 0;
  // A memory of nothing still has an address.
  const size_t size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
  if (CUresult result = api.memoryAllocate(&pointer, size); result == OutOfMemory)
    return failure("cannot allocate ", bytes, " bytes of memory on ", context->deviceName,
                   "; use a smaller batch or model");
  else
    SLUICE_RETURN_IF_ERROR(
        api.check(result, concat("allocating ", bytes, " bytes on ", context->deviceName)));
  std::unique_ptr<CudaMemory> memory(new CudaMemory(std::move(context), pointer, bytes));
  SLUICE_RETURN_IF_ERROR(api.check(api.memorySet8(pointer, 0, size), "clearing memory"));
  return memory;
}

CudaMemory::~CudaMemory() {
  if (context->enter().ok())
    context->api().memoryFree(start);
}

Status CudaMemory::enterRange(uint64_t offset, uint64_t size, std::string_view what) const {
  if (offset > length || size > length - offset)
    return failure("cannot ", what, " ", size, " bytes at offset ", offset, " of a memory of ", length,
                   " bytes");
  SLUICE_RETURN_IF_ERROR(context->enter());
  // The stream does not wait for the copies below by itself.
  return context->synchronize("waiting for the CUDA device");
}

Status CudaMemory::write(uint64_t offset, const void *source, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(enterRange(offset, size, "write"));
  return size ? context->api().check(context->api().copyToDevice(start + offset, source, size),
                                     "copying to the CUDA device")
              : absl::OkStatus();
}

Status CudaMemory::read(uint64_t offset, void *target, uint64_t size) const {
  SLUICE_RETURN_IF_ERROR(enterRange(offset, size, "read"));
  return size ? context->api().check(context->api().copyToHost(target, start + offset, size),
                                     "copying from the CUDA device")
              : absl::OkStatus();
}

} // namespace sluice::cuda
