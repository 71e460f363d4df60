#include "runtime/device/cuda/Context.h"

#include <array>
#include <cstdlib>
#include <cstring>

namespace sluice::cuda {

StatusOr<std::shared_ptr<Context>> Context::create(std::shared_ptr<const Driver> driver, int ordinal) {
  const Driver &api = *driver;
  int count = 0;
  SLUICE_RETURN_IF_ERROR(api.check(api.deviceGetCount(&count), "counting CUDA devices"));
  if (ordinal < 0 || ordinal >= count)
    return failure("--device cuda:", ordinal, ": expected one of the ", count,
                   " CUDA devices of this machine");
  std::shared_ptr<Context> result(new Context(std::move(driver)));
  if (const char *text = std::getenv("SLUICE_CUDA_SYNC")) {
    const std::string_view value = text;
    if (value != "1" && value != "0" && !value.empty())
      return usageError("SLUICE_CUDA_SYNC: expected 1 (launch and wait for each command alone) or 0, found '",
                        value, "'");
    result->alone = value == "1";
  }
  SLUICE_RETURN_IF_ERROR(api.check(api.deviceGet(&result->device, ordinal), "opening a CUDA device"));
  std::array<char, 256> name{};
  SLUICE_RETURN_IF_ERROR(
      api.check(api.deviceGetName(name.data(), static_cast<int>(name.size()) - 1, result->device),
                "naming a CUDA device"));
  result->deviceName = name.data();
  SLUICE_RETURN_IF_ERROR(api.check(
      api.deviceGetAttribute(&result->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, result->device),
      "asking a CUDA device's compute capability"));
  SLUICE_RETURN_IF_ERROR(api.check(
      api.deviceGetAttribute(&result->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, result->device),
      "asking a CUDA device's compute capability"));
  SLUICE_RETURN_IF_ERROR(api.check(api.primaryContextRetain(&result->context, result->device),
                                   concat("starting ", result->deviceName)));
  SLUICE_RETURN_IF_ERROR(result->enter());
  SLUICE_RETURN_IF_ERROR(
      api.check(api.streamCreate(&result->stream, CU_STREAM_NON_BLOCKING), "creating a CUDA stream"));
  const char *named = std::getenv("SLUICE_CUBLASLT");
  // A driver that has none must not get one from the environment.
  if (const std::string library = named && api.blasLibrary != "none" ? named : api.blasLibrary;
      library != "none") {
    StatusOr<std::shared_ptr<const Blas>> blas = Blas::open(library);
    if (blas.ok())
      result->blas = *std::move(blas);
    else if (named)
      return blas.status();
  }
  SLUICE_RETURN_IF_ERROR(result->staging.create(api));
  SLUICE_RETURN_IF_ERROR(
      api.check(api.memoryAllocate(&result->damage, sizeof(int32_t)), "allocating device memory"));
  SLUICE_RETURN_IF_ERROR(api.check(api.memorySet8(result->damage, 0, sizeof(int32_t), result->stream),
                                   "clearing device memory"));
  SLUICE_RETURN_IF_ERROR(
      api.check(api.hostAllocate(&result->damageSeen, sizeof(int32_t), 0), "allocating pinned memory"));
  std::memset(result->damageSeen, 0, sizeof(int32_t));
  return result;
}

Context::~Context() {
  if (!context || !enter().ok())
    return;
  staging.destroy(*driver);
  if (damageSeen)
    driver->hostFree(damageSeen);
  if (damage)
    driver->memoryFree(damage);
  for (CUmodule module : modules)
    driver->moduleUnload(module);
  if (stream)
    driver->streamDestroy(stream);
  driver->primaryContextRelease(device);
}

Status Context::copyIn(CUdeviceptr target, const void *source, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(enter());
  for (uint64_t done = 0; done < size;) {
    const uint64_t part = std::min(size - done, Staging::partBytes);
    SLUICE_ASSIGN_OR_RETURN(void *pinned, staging.reserve(*driver, stream, part));
    std::memcpy(pinned, static_cast<const std::byte *>(source) + done, part);
    SLUICE_RETURN_IF_ERROR(driver->check(driver->copyToDevice(target + done, pinned, part, stream),
                                         "copying to the CUDA device"));
    done += part;
  }
  return absl::OkStatus();
}

Status Context::copyOut(void *target, CUdeviceptr source, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(enter());
  for (uint64_t done = 0; done < size;) {
    const uint64_t part = std::min(size - done, Staging::partBytes);
    SLUICE_RETURN_IF_ERROR(driver->check(driver->copyToHost(staging.results(), source + done, part, stream),
                                         "copying from the CUDA device"));
    SLUICE_RETURN_IF_ERROR(outcome(driver->streamSynchronize(stream)));
    std::memcpy(static_cast<std::byte *>(target) + done, staging.results(), part);
    done += part;
  }
  return absl::OkStatus();
}

Status Context::waitFor(CUevent event) {
  SLUICE_RETURN_IF_ERROR(enter());
  return outcome(driver->eventSynchronize(event));
}

Status Context::waitForCommand(const std::string &name) {
  setLast(name, /*isCommand=*/true);
  SLUICE_RETURN_IF_ERROR(enqueueDamageCopy());
  return outcome(driver->streamSynchronize(stream));
}

Status Context::enqueueDamageCopy() {
  return driver->check(driver->copyToHost(damageSeen, damage, sizeof(int32_t), stream),
                       "copying from the CUDA device");
}

std::string Context::hint() const {
  return lastIsCommand || alone ? ""
                                : "; set SLUICE_CUDA_SYNC=1 to learn which command of which layer it was";
}

Status Context::outcome(CUresult result) {
  if (Status status = driver->check(result, last); !status.ok())
    return failure(status.message(), hint());
  return checkDamage();
}

Status Context::checkDamage() {
  int32_t damaged = 0;
  std::memcpy(&damaged, damageSeen, sizeof damaged);
  if (!damaged)
    return absl::OkStatus();
  std::memset(damageSeen, 0, sizeof damaged);
  SLUICE_RETURN_IF_ERROR(
      driver->check(driver->memorySet8(damage, 0, sizeof damaged, stream), "clearing device memory"));
  return badInputError(last, " met an id outside its table; check the data's vocabulary against the model's",
                       hint());
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
  if (CUresult result = api.memoryAllocate(&pointer, size); result == CUDA_ERROR_OUT_OF_MEMORY)
    return failure("cannot allocate ", bytes, " bytes of memory on ", context->deviceName,
                   "; use a smaller batch or model");
  else
    SLUICE_RETURN_IF_ERROR(
        api.check(result, concat("allocating ", bytes, " bytes on ", context->deviceName)));
  CUstream stream = context->stream;
  std::unique_ptr<CudaMemory> memory(new CudaMemory(std::move(context), pointer, bytes));
  SLUICE_RETURN_IF_ERROR(api.check(api.memorySet8(pointer, 0, size, stream), "clearing memory"));
  return memory;
}

CudaMemory::~CudaMemory() {
  if (context->enter().ok())
    context->api().memoryFree(start);
}

Status CudaMemory::checkRange(uint64_t offset, uint64_t size, std::string_view what) const {
  if (offset > length || size > length - offset)
    return failure("cannot ", what, " ", size, " bytes at offset ", offset, " of a memory of ", length,
                   " bytes");
  return absl::OkStatus();
}

Status CudaMemory::write(uint64_t offset, const void *source, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(checkRange(offset, size, "write"));
  return context->copyIn(start + offset, source, size);
}

Status CudaMemory::read(uint64_t offset, void *target, uint64_t size) const {
  SLUICE_RETURN_IF_ERROR(checkRange(offset, size, "read"));
  return context->copyOut(target, start + offset, size);
}

} // namespace sluice::cuda
