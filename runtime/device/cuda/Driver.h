// A CUDA driver opened by name: the real libcuda.so.1 or the simulated one. Nothing is linked.
#pragma once

#include "runtime/abi/CudaDriver.h"
#include "runtime/support/Status.h"

#include <memory>

namespace sluice::cuda {

// X(the member's name, the entry point): what the device calls, of the driver's entry points.
#define SLUICE_CUDA_DRIVER(X)                                                                                \
  X(init, cuInit)                                                                                            \
  X(driverGetVersion, cuDriverGetVersion)                                                                    \
  X(deviceGetCount, cuDeviceGetCount)                                                                        \
  X(deviceGet, cuDeviceGet)                                                                                  \
  X(deviceGetName, cuDeviceGetName)                                                                          \
  X(deviceGetAttribute, cuDeviceGetAttribute)                                                                \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain)                                                          \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2)                                                     \
  X(contextSetCurrent, cuCtxSetCurrent)                                                                      \
  X(memoryGetInfo, cuMemGetInfo_v2)                                                                          \
  X(memoryAllocate, cuMemAlloc_v2)                                                                           \
  X(memoryFree, cuMemFree_v2)                                                                                \
  X(hostAllocate, cuMemHostAlloc)                                                                            \
  X(hostFree, cuMemFreeHost)                                                                                 \
  X(memorySet8, cuMemsetD8Async)                                                                             \
  X(copyToDevice, cuMemcpyHtoDAsync_v2)                                                                      \
  X(copyToHost, cuMemcpyDtoHAsync_v2)                                                                        \
  X(streamCreate, cuStreamCreate)                                                                            \
  X(streamDestroy, cuStreamDestroy_v2)                                                                       \
  X(streamSynchronize, cuStreamSynchronize)                                                                  \
  X(streamBeginCapture, cuStreamBeginCapture_v2)                                                             \
  X(streamEndCapture, cuStreamEndCapture)                                                                    \
  X(eventCreate, cuEventCreate)                                                                              \
  X(eventDestroy, cuEventDestroy_v2)                                                                         \
  X(eventRecord, cuEventRecord)                                                                              \
  X(eventSynchronize, cuEventSynchronize)                                                                    \
  X(graphInstantiate, cuGraphInstantiateWithFlags)                                                           \
  X(graphLaunch, cuGraphLaunch)                                                                              \
  X(graphExecDestroy, cuGraphExecDestroy)                                                                    \
  X(graphDestroy, cuGraphDestroy)                                                                            \
  X(moduleLoadData, cuModuleLoadData)                                                                        \
  X(moduleUnload, cuModuleUnload)                                                                            \
  X(moduleGetFunction, cuModuleGetFunction)                                                                  \
  X(launchKernel, cuLaunchKernel)                                                                            \
  X(getErrorName, cuGetErrorName)                                                                            \
  X(getErrorString, cuGetErrorString)

/// The entry points of one driver library. Stays open for the life of the process: a driver does not like to
/// be unloaded.
class Driver {
public:
#define SLUICE_CUDA_MEMBER(member, function) decltype(&::function) member = nullptr;
  SLUICE_CUDA_DRIVER(SLUICE_CUDA_MEMBER)
#undef SLUICE_CUDA_MEMBER
  /// What went wrong in the last failed call, in words (a PTX error with its line, a finding): the simulated
  /// driver's own addition, null with a real one.
  const char *(*explanation)() = nullptr;
  /// Names what is launched from now on, for findings; likewise.
  void (*label)(const char *text) = nullptr;

  /// Tells of machine code for kernels whose PTX is loaded next, so that launches are held to its limits;
  /// likewise. Where it is set, modules are PTX.
  int (*machineCode)(const void *image, size_t bytes) = nullptr;

  /// The cuBLASLt that belongs to this driver: NVIDIA's, or the stand-in beside the simulated driver.
  std::string blasLibrary;

  /// Opens `library` and initialises it. Errors (failure, one line): the library is not there, it lacks an
  /// entry point, or there is no device.
  static StatusOr<std::shared_ptr<const Driver>> open(const std::string &library);

  /// OK for CUDA_SUCCESS; else a failure that names `what`, the driver's code and its words.
  Status check(CUresult result, std::string_view what) const;
};

} // namespace sluice::cuda
