// Loads the simulated driver by name, as a program loads libcuda.so.1, and gives the tests short ways to use
// it.
#pragma once

#include "runtime/abi/CudaDriver.h"
#include "runtime/device/cudasim/driver/Simulator.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <string>
#include <vector>

namespace sluice::test {

/// The driver's functions, one pointer each, from the library at `path`.
struct CudaDriver {
#define SLUICE_CUDA_FUNCTION(name, parameters) decltype(&::name) name = nullptr;
#include "runtime/abi/CudaFunctions.inc"
#undef SLUICE_CUDA_FUNCTION
  decltype(&::cudasimConfigure) configure = nullptr;
  decltype(&::cudasimMessage) message = nullptr;
  decltype(&::cudasimFindings) findings = nullptr;
  decltype(&::cudasimStatistics) statistics = nullptr;
  decltype(&::cudasimReset) reset = nullptr;

  explicit CudaDriver(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      ADD_FAILURE() << dlerror();
      std::abort();
    }
    const auto load = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (!function) {
        ADD_FAILURE() << "the library has no " << name;
        std::abort();
      }
    };
#define SLUICE_CUDA_FUNCTION(function, parameters) load(function, #function);
#include "runtime/abi/CudaFunctions.inc"
#undef SLUICE_CUDA_FUNCTION
    load(configure, "cudasimConfigure");
    load(message, "cudasimMessage");
    load(findings, "cudasimFindings");
    load(statistics, "cudasimStatistics");
    load(reset, "cudasimReset");
  }
};

/// Every test begins with a fresh device and the settings below.
class CudaSimTest : public ::testing::Test {
protected:
  static CudaDriver &cuda() {
    static CudaDriver driver(SLUICE_CUDASIM_LIBRARY);
    return driver;
  }
  void SetUp() override { start("check=none;seed=0;threads=2;arch=80;memory=268435456;statistics=1"); }
  void start(const std::string &settings) {
    cuda().reset();
    ASSERT_EQ(cuda().configure(settings.c_str()), 0) << cuda().message();
    ASSERT_EQ(cuda().cuInit(0), CUDA_SUCCESS) << cuda().message();
  }

  CUmodule load(const std::string &ptx) {
    CUmodule module = nullptr;
    EXPECT_EQ(cuda().cuModuleLoadData(&module, ptx.c_str()), CUDA_SUCCESS) << cuda().message();
    return module;
  }
  CUmodule loadFile(const std::string &name) {
    StatusOr<std::string> text = readFile(std::string(SLUICE_TEST_DATA) + "/cudasim/" + name);
    EXPECT_TRUE(text.ok()) << text.status();
    return load(*text);
  }
  CUfunction function(CUmodule module, const char *name) {
    CUfunction result = nullptr;
    EXPECT_EQ(cuda().cuModuleGetFunction(&result, module, name), CUDA_SUCCESS) << cuda().message();
    return result;
  }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuda().cuMemAlloc_v2(&pointer, bytes), CUDA_SUCCESS) << cuda().message();
    return pointer;
  }
  template <typename T> CUdeviceptr upload(const std::vector<T> &values) {
    const CUdeviceptr pointer = allocate(values.size() * sizeof(T));
    EXPECT_EQ(cuda().cuMemcpyHtoD_v2(pointer, values.data(), values.size() * sizeof(T)), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuCtxSynchronize(), CUDA_SUCCESS); // other streams do not wait for the copy
    return pointer;
  }
  template <typename T> std::vector<T> download(CUdeviceptr pointer, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuda().cuMemcpyDtoH_v2(values.data(), pointer, count * sizeof(T)), CUDA_SUCCESS)
        << cuda().message();
    return values;
  }
  struct Shape {
    unsigned grid = 1, block = 32, gridY = 1, blockY = 1, shared = 0;
  };
  template <typename... Arguments>
  CUresult launch(CUfunction function, Shape shape, CUstream stream, Arguments... arguments) {
    void *pointers[] = {static_cast<void *>(&arguments)...};
    return cuda().cuLaunchKernel(function, shape.grid, shape.gridY, 1, shape.block, shape.blockY, 1,
                                 shape.shared, stream, pointers, nullptr);
  }
  /// Launches and waits.
  template <typename... Arguments> CUresult run(CUfunction function, Shape shape, Arguments... arguments) {
    const CUresult result = launch(function, shape, nullptr, arguments...);
    return result ? result : cuda().cuCtxSynchronize();
  }
};

} // namespace sluice::test
