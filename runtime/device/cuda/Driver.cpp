#include "runtime/device/cuda/Driver.h"

#include <dlfcn.h>

namespace sluice::cuda {

StatusOr<std::shared_ptr<const Driver>> Driver::open(const std::string &library) {
  void *handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = ::dlerror();
    return failure("no CUDA driver: ", reason ? reason : library.c_str(),
                   "; install the GPU's driver, or use --device cpu or --device cuda-sim");
  }
  auto driver = std::make_shared<Driver>();
  std::string missing;
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(handle, name));
    if (!entry)
      missing += concat(missing.empty() ? "" : ", ", name);
  };
#define SLUICE_CUDA_FIND(member, function) find(driver->member, #function);
  SLUICE_CUDA_DRIVER(SLUICE_CUDA_FIND)
#undef SLUICE_CUDA_FIND
  driver->explanation = reinterpret_cast<const char *(*)()>(::dlsym(handle, "cudasimMessage"));
  driver->label = reinterpret_cast<void (*)(const char *)>(::dlsym(handle, "cudasimLabel"));
  driver->machineCode =
      reinterpret_cast<int (*)(const void *, size_t)>(::dlsym(handle, "cudasimMachineCode"));
  const size_t folder = library.rfind('/');
  driver->blasLibrary = driver->explanation && folder != std::string::npos
                            ? library.substr(0, folder) + "/libsluice_cublaslt_sim.so"
                            : "libcublasLt.so.13";
  if (!missing.empty())
    return failure("the CUDA driver ", library, " lacks ", missing,
                   "; a driver of CUDA 12 or later is needed");
  SLUICE_RETURN_IF_ERROR(driver->check(driver->init(0), concat("starting the CUDA driver ", library)));
  return std::shared_ptr<const Driver>(std::move(driver));
}

Status Driver::check(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS)
    return absl::OkStatus();
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  return failure(what, ": CUDA error ", result, " (", name ? name : "unknown", text ? ": " : "",
                 text ? text : "", ")",
                 explanation && *explanation() ? concat("\n  ", explanation()) : std::string());
}

} // namespace sluice::cuda
