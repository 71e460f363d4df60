// Entry points: initialisation, the device, the context, names of errors, look-up by name.
#include "runtime/device/cudasim/driver/Device.h"

#include <cstdio>
#include <cstring>
#include <string_view>

using namespace sluice::cudasim;

namespace {

constexpr int kDriverVersion = 13000;

struct ErrorRow {
  CUresult error;
  const char *name, *text;
};
constexpr ErrorRow kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch does not end"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not initiated in this stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capture sequence contains a fork that was not joined"},
};

const ErrorRow *findError(CUresult error) {
  for (const ErrorRow &row : kErrors)
    if (row.error == error)
      return &row;
  return nullptr;
}

struct EntryPoint {
  const char *name;
  void *function;
};
constexpr size_t kEntryPoints = 0
#define SLUICE_CUDA_FUNCTION(name, parameters) +1
#include "runtime/abi/CudaFunctions.inc"
#undef SLUICE_CUDA_FUNCTION
    ;

const EntryPoint *entryPoints() {
  static const EntryPoint table[kEntryPoints] = {
#define SLUICE_CUDA_FUNCTION(name, parameters) {#name, reinterpret_cast<void *>(&name)},
#include "runtime/abi/CudaFunctions.inc"
#undef SLUICE_CUDA_FUNCTION
  };
  return table;
}

} // namespace

CUresult cuInit(unsigned flags) {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  return flags != 0 ? device.fail(CUDA_ERROR_INVALID_VALUE, "cuInit: flags must be 0") : device.initialise();
}

CUresult cuDriverGetVersion(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  const ErrorRow *row = findError(error);
  if (!row || !text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = row->name;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const ErrorRow *row = findError(error);
  if (!row || !text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = row->text;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int, uint64_t,
                             CUdriverProcAddressQueryResult *status) {
  if (!symbol || !function)
    return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  // The name may come with or without its version.
  const std::string_view wanted(symbol);
  for (size_t i = 0; i < kEntryPoints; ++i) {
    const std::string_view name(entryPoints()[i].name);
    if (name == wanted || (name.starts_with(wanted) && name.substr(wanted.size()).starts_with("_v") &&
                           name.size() == wanted.size() + 3))
      *function = entryPoints()[i].function;
  }
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGetCount(int *count) {
  return withDevice([&](Device &device) {
    if (!count)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuDeviceGetCount: no place for the result");
    *count = 1;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuDeviceGet(CUdevice *result, int ordinal) {
  return withDevice([&](Device &device) {
    if (!result || ordinal != 0)
      return device.fail(CUDA_ERROR_INVALID_DEVICE, "the simulated device is number 0");
    *result = 0;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  return withDevice([&](Device &device) {
    if (!name || length < 1)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuDeviceGetName: no place for the result");
    std::snprintf(name, static_cast<size_t>(length), "Sluice simulated device (sm_%d)",
                  device.settings.architecture);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  return withDevice([&](Device &device) {
    if (!bytes)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuDeviceTotalMem: no place for the result");
    *bytes = device.memory().capacity();
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice number) {
  return withDevice([&](Device &device) {
    if (!value || number != 0)
      return device.fail(CUDA_ERROR_INVALID_VALUE,
                         "cuDeviceGetAttribute: no place for the result, or no such device");
    const ArchitectureLimits limits = limitsOf(device.settings.architecture);
    const struct {
      CUdevice_attribute attribute;
      int value;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 * 1024},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, limits.threadsOfProcessor},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device.settings.architecture / 10},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device.settings.architecture % 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, limits.sharedOfProcessor},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, limits.maximumShared},
    };
    for (const auto &row : rows)
      if (row.attribute == attribute) {
        *value = row.value;
        return CUresult(CUDA_SUCCESS);
      }
    return device.fail(CUDA_ERROR_NOT_SUPPORTED,
                       sluice::concat("device attribute ", static_cast<int>(attribute), " is not simulated"));
  });
}

namespace {
/// The one context; its address is all that is known of it.
CUcontext theContext() {
  return reinterpret_cast<CUcontext>(&Device::get());
}
thread_local CUcontext currentContext = nullptr;
} // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice number) {
  return withDevice([&](Device &device) {
    if (!context || number != 0)
      return device.fail(CUDA_ERROR_INVALID_DEVICE, "the simulated device is number 0");
    *context = theContext();
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return withDevice([](Device &) { return CUresult(CUDA_SUCCESS); });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return withDevice([&](Device &device) {
    if (context && context != theContext())
      return device.fail(CUDA_ERROR_INVALID_CONTEXT, "not the simulated device's context");
    currentContext = context;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  return withDevice([&](Device &device) {
    if (!context)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuCtxGetCurrent: no place for the result");
    *context = currentContext;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuCtxSynchronize() {
  return withDevice([](Device &device) {
    if (const CUresult error = device.refuseInCapture())
      return error;
    return device.synchronise(nullptr);
  });
}
