#include "codegen/cuda/Images.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "tests/runtime/device/CommandRunner.h"

#include <dlfcn.h>

namespace sluice::test {

const bool takesLargeShapes = false;
namespace {

/// The simulated driver with the library of command kinds as PTX.
StatusOr<std::unique_ptr<Device>> openDevice() {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                          createCudaDevice(SLUICE_CUDASIM_LIBRARY, 0, "cuda-sim"));
  SLUICE_ASSIGN_OR_RETURN(std::vector<cuda::CudaImage> images, cuda::compileImages({}, {"cuda:sm_80"}));
  for (const cuda::CudaImage &image : images)
    if (image.target == "cuda:compute_80")
      SLUICE_RETURN_IF_ERROR(device->loadKernels({image.target, image.image}));
  return device;
}

} // namespace

/// Variant 1 runs with all checks; the others in other orders of streams, blocks and warps.
StatusOr<Device *> testDevice(int variant) {
  static auto *device = new StatusOr<std::unique_ptr<Device>>(openDevice());
  SLUICE_RETURN_IF_ERROR(device->status());
  void *library = ::dlopen(SLUICE_CUDASIM_LIBRARY, RTLD_NOW);
  auto configure = reinterpret_cast<int (*)(const char *)>(::dlsym(library, "cudasimConfigure"));
  const std::string settings =
      variant == 1 ? "check=memory,init,race,barrier,launch;seed=0" : concat("check=launch;seed=", variant);
  if (!configure || configure(settings.c_str()) != 0)
    return failure("the simulated driver does not take '", settings, "'");
  return device->value().get();
}

Status checkTestDevice() {
  static void *library = ::dlopen(SLUICE_CUDASIM_LIBRARY, RTLD_NOW);
  static auto findings = reinterpret_cast<const char *(*)()>(::dlsym(library, "cudasimFindings"));
  static auto clear = reinterpret_cast<void (*)()>(::dlsym(library, "cudasimClearFindings"));
  const std::string found = findings();
  clear();
  return found.empty() ? absl::OkStatus() : failure(found);
}

} // namespace sluice::test
