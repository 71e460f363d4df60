// The part of the CUDA driver API that Sluice calls: types, codes and entry points, as its public ABI fixes
// them. One list, from which the runtime opens a driver by name (the real one or the simulated one). No
// dependencies, no toolkit header.
#pragma once

#include <stddef.h>

extern "C" {
typedef int CUresult; // 0: success
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
}

namespace sluice::cuda {

enum Result : CUresult {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NoDevice = 100,
  NoBinaryForGpu = 209,
  NotFound = 500,
};

enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxGridDimX = 5,
  MaxGridDimY = 6,
  MaxGridDimZ = 7,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
};

constexpr int captureModeThreadLocal = 1;
constexpr unsigned streamNonBlocking = 1;

// X(entry point, its versioned name, parameters)
#define SLUICE_CUDA_DRIVER(X)                                                                                \
  X(init, "cuInit", (unsigned flags))                                                                        \
  X(driverGetVersion, "cuDriverGetVersion", (int *version))                                                  \
  X(deviceGetCount, "cuDeviceGetCount", (int *count))                                                        \
  X(deviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                              \
  X(deviceGetName, "cuDeviceGetName", (char *name, int length, CUdevice device))                             \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))                \
  X(primaryContextRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                \
  X(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                \
  X(contextSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                               \
  X(memoryGetInfo, "cuMemGetInfo_v2", (size_t *available, size_t *total))                                    \
  X(memoryAllocate, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                                  \
  X(memoryFree, "cuMemFree_v2", (CUdeviceptr pointer))                                                       \
  X(memorySet8, "cuMemsetD8_v2", (CUdeviceptr pointer, unsigned char value, size_t count))                   \
  X(copyToDevice, "cuMemcpyHtoD_v2", (CUdeviceptr target, const void *source, size_t bytes))                 \
  X(copyToHost, "cuMemcpyDtoH_v2", (void *target, CUdeviceptr source, size_t bytes))                         \
  X(streamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                     \
  X(streamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                  \
  X(streamSynchronize, "cuStreamSynchronize", (CUstream stream))                                             \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                              \
  X(streamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                              \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                                                         \
    (CUgraphExec * executable, CUgraph graph, unsigned long long flags))                                     \
  X(graphLaunch, "cuGraphLaunch", (CUgraphExec executable, CUstream stream))                                 \
  X(graphExecDestroy, "cuGraphExecDestroy", (CUgraphExec executable))                                        \
  X(graphDestroy, "cuGraphDestroy", (CUgraph graph))                                                         \
  X(moduleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image))                              \
  X(moduleUnload, "cuModuleUnload", (CUmodule module))                                                       \
  X(moduleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char *name))    \
  X(launchKernel, "cuLaunchKernel",                                                                          \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,  \
     unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters, void **extra))               \
  X(getErrorName, "cuGetErrorName", (CUresult error, const char **name))                                     \
  X(getErrorString, "cuGetErrorString", (CUresult error, const char **text))

} // namespace sluice::cuda
