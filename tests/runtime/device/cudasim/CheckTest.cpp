// Every check against a kernel with the fault and the same kernel without it.
#include "tests/runtime/device/cudasim/CudaDriver.h"

#include <sstream>

namespace sluice::test {
namespace {

struct FaultCase {
  const char *kernel, *check; // "memory" ...
  unsigned grid, block, shared;
  CUresult result; // of the faulty launch
};

class FaultTest : public CudaSimTest, public ::testing::WithParamInterface<FaultCase> {
protected:
  /// "faults.cu:LINE" of the mark "FAULT name".
  static std::string place(const std::string &name) {
    const std::string text = *readFile(std::string(SLUICE_TEST_DATA) + "/cudasim/faults.cu");
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number)
      if (line.ends_with("FAULT " + name))
        return "faults.cu:" + std::to_string(number);
    return "no mark";
  }
  CUresult launchFault(int bug) {
    const FaultCase &fault = GetParam();
    start("check=all;seed=0;threads=2;arch=80;memory=268435456");
    CUfunction kernel = function(loadFile("faults.ptx"), fault.kernel);
    const Shape shape = {fault.grid, fault.block, 1, 1, fault.shared};
    const std::string name = fault.kernel;
    const CUdeviceptr y = upload(std::vector<int>(64, 0));
    if (name == "outOfBounds")
      return run(kernel, shape, y, 64, bug);
    if (name == "uninitialisedGlobal") {
      const CUdeviceptr x = allocate(65 * 4);
      EXPECT_EQ(cuda().cuMemsetD32_v2(x, 0, 64), CUDA_SUCCESS);
      return run(kernel, shape, x, y, bug);
    }
    return run(kernel, shape, y, bug);
  }
};

TEST_P(FaultTest, IsFoundAndItsCorrectionPasses) {
  const FaultCase &fault = GetParam();
  EXPECT_EQ(launchFault(1), fault.result) << cuda().message();
  const std::string found = cuda().findings();
  std::istringstream lines(found);
  std::string line;
  bool named = false;
  while (std::getline(lines, line))
    named |= line.starts_with(std::string(fault.check) + ": kernel '" + fault.kernel + "'") &&
             line.find(place(fault.kernel)) != std::string::npos;
  EXPECT_TRUE(named) << "expected a " << fault.check << " finding at " << place(fault.kernel)
                     << ", found: " << found;
  EXPECT_EQ(launchFault(0), CUDA_SUCCESS) << cuda().message();
  EXPECT_STREQ(cuda().findings(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::Values(FaultCase{"outOfBounds", "memory", 3, 32, 0, CUDA_ERROR_ILLEGAL_ADDRESS},
                      FaultCase{"misaligned", "memory", 1, 1, 0, CUDA_ERROR_MISALIGNED_ADDRESS},
                      FaultCase{"sharedOverrun", "memory", 1, 32, 128, CUDA_ERROR_ILLEGAL_ADDRESS},
                      FaultCase{"uninitialisedShared", "init", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"uninitialisedGlobal", "init", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"missingBarrier", "race", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"missingWarpSync", "race", 1, 32, 0, CUDA_SUCCESS},
                      FaultCase{"blocksCollide", "race", 4, 32, 0, CUDA_SUCCESS},
                      FaultCase{"lanesCollide", "race", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"lanesCollideShared", "race", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"divergentBarrier", "barrier", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"earlyReturn", "barrier", 1, 64, 0, CUDA_SUCCESS},
                      FaultCase{"shuffleMask", "barrier", 1, 32, 0, CUDA_SUCCESS},
                      FaultCase{"waitForEver", "barrier", 1, 64, 0, CUDA_ERROR_LAUNCH_TIMEOUT}),
    [](const ::testing::TestParamInfo<FaultCase> &info) { return std::string(info.param.kernel); });

class CheckTest : public CudaSimTest {};

TEST_F(CheckTest, AFindingNamesThreadAndAddressAndIsCounted) {
  start("check=memory;memory=268435456");
  CUfunction kernel = function(loadFile("faults.ptx"), "outOfBounds");
  const CUdeviceptr y = allocate(60 * 4);
  EXPECT_EQ(run(kernel, {2, 32}, y, 62, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  const std::string found = cuda().findings();
  // Threads 28 and 29 of block 1 write elements 60 and 61 of 60.
  EXPECT_NE(found.find("block (1,0,0), thread (28,0,0)"), std::string::npos) << found;
  EXPECT_NE(found.find("240 bytes into the allocation"), std::string::npos) << found;
  EXPECT_NE(found.find("2 times"), std::string::npos) << found;
  // The error ends the context, as on a GPU.
  EXPECT_EQ(cuda().cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(CheckTest, UseAfterFree) {
  start("check=memory;memory=268435456");
  CUfunction kernel = function(loadFile("faults.ptx"), "outOfBounds");
  const CUdeviceptr y = allocate(64 * 4);
  ASSERT_EQ(cuda().cuMemFree_v2(y), CUDA_SUCCESS);
  EXPECT_EQ(run(kernel, {2, 32}, y, 64, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(std::string(cuda().findings()).find("which was freed"), std::string::npos) << cuda().findings();
}

TEST_F(CheckTest, LaunchLimits) {
  start("check=launch;memory=268435456");
  CUmodule module = loadFile("kernels.ptx");
  CUfunction bounded = function(module, "reduceSum"), scan = function(module, "blockScan");
  const CUdeviceptr x = allocate(4096);
  EXPECT_EQ(run(bounded, {1, 512}, x, x, 1), CUDA_ERROR_INVALID_VALUE); // __launch_bounds__(256)
  EXPECT_EQ(run(scan, {1, 2048}, x, x), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(run(scan, {0, 32}, x, x), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(run(scan, {1, 32, 1, 1, 64 * 1024}, x, x), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(std::string(cuda().findings()).find("launch: kernel 'blockScan'"), std::string::npos);
  EXPECT_EQ(cuda().cuFuncSetAttribute(scan, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 * 1024),
            CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuFuncSetAttribute(scan, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 164 * 1024),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CheckTest, SettingsAreChecked) {
  EXPECT_NE(cuda().configure("check=memroy"), 0);
  EXPECT_NE(std::string(cuda().message()).find("memroy"), std::string::npos);
  EXPECT_NE(cuda().configure("seeds=1"), 0);
  EXPECT_NE(cuda().configure("arch=quick"), 0);
}

} // namespace
} // namespace sluice::test
