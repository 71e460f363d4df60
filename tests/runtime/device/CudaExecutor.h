// The CUDA device over the simulated driver with entry points replaced: what tests of its own work share.
#pragma once

#include "codegen/cuda/Images.h"
#include "runtime/device/Sequence.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/Driver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace sluice::cuda {

inline struct Calls {
  int streamWaits = 0, eventWaits = 0, kernels = 0, copies = 0, graphs = 0;
} calls;
inline Driver original; // what the counting entry points call

/// A copy of the driver in which `change` has replaced entry points.
template <typename Change> inline StatusOr<std::unique_ptr<Device>> deviceWith(Change change) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Driver> driver, Driver::open(SLUICE_CUDASIM_LIBRARY));
  original = *driver;
  auto changed = std::make_shared<Driver>(*driver);
  change(*changed);
  return createCudaDevice(std::move(changed), 0, "cuda-sim");
}

inline void count(Driver &driver) {
  driver.streamSynchronize = [](CUstream stream) {
    ++calls.streamWaits;
    return original.streamSynchronize(stream);
  };
  driver.eventSynchronize = [](CUevent event) {
    ++calls.eventWaits;
    return original.eventSynchronize(event);
  };
  driver.graphLaunch = [](CUgraphExec graph, CUstream stream) {
    ++calls.graphs;
    return original.graphLaunch(graph, stream);
  };
  driver.copyToDevice = [](CUdeviceptr place, const void *source, size_t size, CUstream stream) {
    ++calls.copies;
    return original.copyToDevice(place, source, size, stream);
  };
  driver.copyToHost = [](void *target, CUdeviceptr place, size_t size, CUstream stream) {
    ++calls.copies;
    return original.copyToHost(target, place, size, stream);
  };
  driver.launchKernel = [](CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                           unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                           CUstream stream, void **parameters, void **extra) {
    ++calls.kernels;
    return original.launchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream,
                                 parameters, extra);
  };
}

template <typename Function> Function *simulatorFunction(const char *name) {
  static void *library = ::dlopen(SLUICE_CUDASIM_LIBRARY, RTLD_NOW);
  return reinterpret_cast<Function *>(::dlsym(library, name));
}

class CudaExecutor : public testing::Test {
protected:
  void SetUp() override {
    simulatorFunction<void()>("cudasimReset")();
    configure("arch=80;check=none;seed=0;statistics=0");
  }
  static void configure(const char *settings) {
    ASSERT_EQ(simulatorFunction<int(const char *)>("cudasimConfigure")(settings), 0);
  }
  static void loadLibrary(Device &device) {
    static auto *images = new StatusOr<std::vector<CudaImage>>(compileImages({}, {"cuda:sm_80"}));
    ASSERT_TRUE(images->ok()) << images->status();
    ASSERT_TRUE(device.loadKernels({"cuda:compute_80", (*images)->back().image}).ok());
  }
  static Operand at(uint64_t offset, int64_t count) { return {ElementType::F32, {count}, 0, offset}; }
};

} // namespace sluice::cuda
