// Limits of launches as the cubin says them: the simulated driver runs PTX, which knows neither the registers
// nor the shared memory that the machine code takes.
#include "tests/runtime/device/CudaExecutor.h"

#include "codegen/cuda/Nvrtc.h"
#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cuda/ModuleArchive.h"

namespace sluice::cuda {
namespace {

/// Keeps 120 values alive across a barrier, behind which no load may move.
constexpr const char *greedy = R"(extern "C" __global__ BOUNDS void greedy(float *y) {
#if SHARED
  __shared__ float s[SHARED];
  s[threadIdx.x] = threadIdx.x;
#endif
  float a[120];
#pragma unroll
  for (int i = 0; i < 120; ++i)
    a[i] = y[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 120; ++i)
    y[i] = a[119 - i];
#if SHARED
  y[0] = s[31 - threadIdx.x % 32];
#endif
}
)";

struct Kernel {
  std::string bounds;
  int shared = 0;
};

std::string compile(const std::string &architecture, const Kernel &kernel) {
  StatusOr<std::shared_ptr<const Nvrtc>> nvrtc = Nvrtc::open();
  EXPECT_TRUE(nvrtc.ok()) << nvrtc.status();
  StatusOr<std::string> code =
      (*nvrtc)->compile({"greedy.cu", concat("#define BOUNDS ", kernel.bounds, "\n#define SHARED ",
                                             kernel.shared, "\n", greedy)},
                        architecture);
  EXPECT_TRUE(code.ok()) << code.status();
  return *code;
}

KernelResources resourcesOf(const std::string &cubin) {
  StatusOr<std::vector<KernelResources>> kernels = readCubin(cubin, "test");
  EXPECT_TRUE(kernels.ok() && kernels->size() == 1) << kernels.status();
  return kernels->at(0);
}

class CudaLimits : public CudaExecutor {
protected:
  /// The function of the PTX, whose cubin (empty: none) the driver knows.
  CUfunction load(const std::string &settings, const std::string &cubin, const std::string &ptx) {
    simulatorFunction<void()>("cudasimReset")();
    configure(settings.c_str());
    StatusOr<std::shared_ptr<const Driver>> opened = Driver::open(SLUICE_CUDASIM_LIBRARY);
    EXPECT_TRUE(opened.ok()) << opened.status();
    driver = *opened;
    if (!cubin.empty())
      EXPECT_EQ(driver->machineCode(cubin.data(), cubin.size()), CUDA_SUCCESS) << driver->explanation();
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_EQ(driver->moduleLoadData(&module, ptx.c_str()), CUDA_SUCCESS) << driver->explanation();
    EXPECT_EQ(driver->moduleGetFunction(&function, module, "greedy"), CUDA_SUCCESS);
    return function;
  }
  CUresult launch(CUfunction function, unsigned threads, unsigned sharedBytes = 0) {
    CUdeviceptr y = 0;
    EXPECT_EQ(driver->memoryAllocate(&y, 4096), CUDA_SUCCESS);
    void *parameters[] = {&y};
    return driver->launchKernel(function, 1, 1, 1, threads, 1, 1, sharedBytes, nullptr, parameters, nullptr);
  }
  int attribute(CUfunction function, CUfunction_attribute name) {
    int value = -1;
    EXPECT_EQ(simulatorFunction<CUresult(int *, CUfunction_attribute, CUfunction)>("cuFuncGetAttribute")(
                  &value, name, function),
              CUDA_SUCCESS);
    return value;
  }
  CUresult allowDynamic(CUfunction function, int bytes) {
    return simulatorFunction<CUresult(CUfunction, CUfunction_attribute, int)>("cuFuncSetAttribute")(
        function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  }

  std::shared_ptr<const Driver> driver;
};

TEST_F(CudaLimits, RegistersOfTheCubinBoundTheThreads) {
  const std::string cubin = compile("sm_80", {}), ptx = compile("compute_80", {});
  const KernelResources resources = resourcesOf(cubin);
  ASSERT_GT(resources.registers, 120) << "as many values are alive at once";
  CUfunction function = load("arch=80;check=launch", "", ptx);
  EXPECT_EQ(launch(function, 1024), CUDA_SUCCESS) << "the PTX alone knows no bound";
  EXPECT_EQ(attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);

  function = load("arch=80;check=launch", cubin, ptx);
  // Of 65,536 registers each warp takes those of 32 threads in units of 256, and warps count in fours.
  const int64_t warp = (32 * resources.registers + 255) / 256 * 256;
  const auto fitting = static_cast<unsigned>(65536 / (4 * warp) * 4 * 32);
  ASSERT_LT(fitting, 1024u);
  EXPECT_EQ(launch(function, fitting), CUDA_SUCCESS) << driver->explanation();
  EXPECT_EQ(std::string(simulatorFunction<const char *()>("cudasimFindings")()), "");
  for (unsigned more : {1u, 32u, 128u})
    EXPECT_EQ(launch(function, fitting + more), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) << more;
  const std::string findings = simulatorFunction<const char *()>("cudasimFindings")();
  EXPECT_NE(findings.find("launch: kernel 'greedy': expected a block to take at most 65536 registers"),
            std::string::npos)
      << findings;
  EXPECT_EQ(attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS), resources.registers);
  EXPECT_EQ(attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), static_cast<int>(fitting));
  EXPECT_EQ(attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), resources.localBytes);
}

TEST_F(CudaLimits, SharedMemoryOfTheCubinCounts) {
  // The machine code takes 8 KiB more than the PTX says.
  const std::string cubin = compile("sm_80", {"", 10240}), ptx = compile("compute_80", {"", 8192});
  ASSERT_EQ(resourcesOf(cubin).sharedBytes, 40 * 1024);
  constexpr int kibi = 1024;
  CUfunction function = load("arch=80", "", ptx);
  EXPECT_EQ(launch(function, 32, 16 * kibi), CUDA_SUCCESS) << "32 static and 16 dynamic are 48 KiB";
  EXPECT_EQ(launch(function, 32, 16 * kibi + 1), CUDA_ERROR_INVALID_VALUE) << "not without asking";
  function = load("arch=80", cubin, ptx);
  EXPECT_EQ(launch(function, 32, 8 * kibi), CUDA_SUCCESS);
  EXPECT_EQ(launch(function, 32, 16 * kibi), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 40 * kibi);
  // 163 KiB in all on sm_80, when asked for.
  EXPECT_EQ(allowDynamic(function, 124 * kibi), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allowDynamic(function, 123 * kibi), CUDA_SUCCESS);
  EXPECT_EQ(launch(function, 32, 123 * kibi), CUDA_SUCCESS);
}

TEST_F(CudaLimits, WhatTheSystemKeepsIsNotTheKernels) {
  // On sm_90 a cubin counts 1 KiB of the system's, which the 227 KiB of a block do not.
  const std::string cubin = compile("sm_90", {"", 8192}), ptx = compile("compute_90", {"", 8192});
  ASSERT_EQ(resourcesOf(cubin).sharedBytes, 33 * 1024);
  CUfunction function = load("arch=90", cubin, ptx);
  EXPECT_EQ(attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 32 * 1024);
  EXPECT_EQ(allowDynamic(function, 195 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allowDynamic(function, 195 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(launch(function, 32, 195 * 1024), CUDA_SUCCESS);
}

TEST_F(CudaLimits, TheCubinIsThatOfTheNextModule) {
  const std::string cubin = compile("sm_80", {}), ptx = compile("compute_80", {});
  load("arch=80", cubin, ptx);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(driver->moduleLoadData(&module, ptx.c_str()), CUDA_SUCCESS);
  ASSERT_EQ(driver->moduleGetFunction(&function, module, "greedy"), CUDA_SUCCESS);
  EXPECT_EQ(launch(function, 1024), CUDA_SUCCESS) << "a module of which no cubin is known";
  EXPECT_NE(driver->machineCode("\177ELF and no more", 16), CUDA_SUCCESS);
  EXPECT_NE(std::string(driver->explanation()).find("cubin"), std::string::npos);
}

TEST_F(CudaLimits, AnExecutablesCubinsAreTakenNoteOf) {
  const std::string ptx = compile("compute_80", {});
  for (bool bounded : {false, true}) {
    // As if the machine code had been compiled with other bounds than the PTX.
    const std::string cubin = compile("sm_80", {bounded ? "__launch_bounds__(128)" : ""});
    simulatorFunction<void()>("cudasimReset")();
    configure("arch=80");
    StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
    ASSERT_TRUE(device.ok()) << device.status();
    const Status machineCode =
        (*device)->loadKernels({"cuda:sm_80", writeModuleArchive({{{"greedy"}, cubin}})});
    EXPECT_NE(machineCode.message().find("runs PTX"), absl::string_view::npos) << machineCode;
    ASSERT_TRUE((*device)->loadKernels({"cuda:compute_80", writeModuleArchive({{{"greedy"}, ptx}})}).ok());
    StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(1024);
    ASSERT_TRUE(memory.ok());
    const std::vector<Command> commands = {{"launch",
                                            "layers.0.norm",
                                            {},
                                            {{ElementType::F32, {1, 240}, 0, 0}},
                                            {{"kernel", std::string("greedy")},
                                             {"domain", std::string("rows")},
                                             {"rows", int64_t{1}},
                                             {"columns", int64_t{240}}}, // 256 threads
                                            {}}};
    DeviceMemory *const arenas[] = {memory->get()};
    StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
    ASSERT_TRUE(program.ok()) << program.status();
    const Status status = (*program)->execute();
    EXPECT_EQ(status.ok(), !bounded) << status;
    if (bounded) {
      const std::string text(status.message());
      EXPECT_NE(text.find("command launch of 'layers.0.norm'"), std::string::npos) << text;
      EXPECT_NE(text.find("at most 128 threads a block, found 256"), std::string::npos) << text;
    }
  }
}

TEST_F(CudaLimits, TargetsRunWhereNvidiaSaysTheyDo) {
  struct Case {
    int architecture;
    const char *target;
    bool runs;
  };
  for (const Case &c : {Case{80, "sm_80", true},
                        {86, "sm_80", true},
                        {80, "sm_86", false},
                        {90, "sm_80", false},
                        {90, "sm_90a", true},
                        {100, "sm_90a", false},
                        {103, "sm_100", true},
                        {103, "sm_100f", true},
                        {103, "sm_100a", false},
                        {103, "sm_103a", true},
                        {90, "compute_80", true},
                        {80, "compute_90", false}}) {
    simulatorFunction<void()>("cudasimReset")();
    configure(concat("arch=", c.architecture).c_str());
    StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
    ASSERT_TRUE(device.ok()) << device.status();
    const Status status = (*device)->loadKernels({concat("cuda:", c.target), writeModuleArchive({})});
    EXPECT_EQ(status.message().find("does not run on") == absl::string_view::npos, c.runs)
        << c.target << " on " << c.architecture << ": " << status;
    EXPECT_EQ(status.message().find("expected cuda:"), absl::string_view::npos) << status;
    if (!c.runs)
      EXPECT_NE(status.message().find(concat("--target cuda:sm_", c.architecture)), absl::string_view::npos)
          << status;
  }
}

} // namespace
} // namespace sluice::cuda
