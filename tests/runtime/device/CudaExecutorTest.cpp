// The CUDA device's own work on the simulated driver: no wait inside a run, every wait and event needed,
// bytes of kernels that only move data.
#include "codegen/cuda/Images.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/Driver.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <numeric>
#include <sstream>

namespace sluice::cuda {
namespace {

struct Calls {
  int streamWaits = 0, eventWaits = 0, kernels = 0, graphs = 0;
} calls;
Driver original; // what the counting entry points call

/// A copy of the driver in which `change` has replaced entry points.
template <typename Change> StatusOr<std::unique_ptr<Device>> deviceWith(Change change) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Driver> driver, Driver::open(SLUICE_CUDASIM_LIBRARY));
  original = *driver;
  auto changed = std::make_shared<Driver>(*driver);
  change(*changed);
  return createCudaDevice(std::move(changed), 0, "cuda-sim");
}

void count(Driver &driver) {
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
    configure("check=none;seed=0;statistics=0");
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

TEST_F(CudaExecutor, ARunWaitsForNothingAndIsOneGraph) {
  StatusOr<std::unique_ptr<Device>> device = deviceWith(count);
  ASSERT_TRUE(device.ok()) << device.status();
  loadLibrary(**device);
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(1024);
  ASSERT_TRUE(memory.ok());
  // b = a; c = transpose of b: two kernels that follow each other.
  const std::vector<Command> commands = {{"copy", "first", {at(0, 6)}, {at(64, 6)}, {}, {}},
                                         {"transpose",
                                          "second",
                                          {{ElementType::F32, {2, 3}, 0, 64}},
                                          {{ElementType::F32, {3, 2}, 0, 128}},
                                          {{"permutation", std::string("1,0")}},
                                          {0}}};
  DeviceMemory *const arenas[] = {memory->get()};
  StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
  ASSERT_TRUE(program.ok()) << program.status();
  calls = {};
  for (int run = 0; run < 3; ++run) {
    std::vector<float> values = {1, 2, 3, 4, 5, static_cast<float>(run)};
    ASSERT_TRUE((*memory)->write(0, values.data(), 24).ok());
    values.assign(6, -1); // a write has taken its data
    ASSERT_TRUE((*program)->execute().ok());
  }
  EXPECT_EQ(calls.kernels, 2) << "launched while the graph was captured, once";
  EXPECT_EQ(calls.graphs, 3);
  EXPECT_EQ(calls.streamWaits + calls.eventWaits, 0);
  std::vector<float> result(6);
  ASSERT_TRUE((*memory)->read(128, result.data(), 24).ok());
  EXPECT_EQ(calls.streamWaits, 1);
  EXPECT_EQ(result, (std::vector<float>{1, 4, 2, 5, 3, 2}));
}

TEST_F(CudaExecutor, ProductsGoThroughCublasLtWhereItIs) {
  for (const char *library : {"", "none"}) {
    simulatorFunction<void()>("cudasimReset")();
    if (*library)
      ::setenv("SLUICE_CUBLASLT", library, 1);
    StatusOr<std::unique_ptr<Device>> device = deviceWith(count);
    ::unsetenv("SLUICE_CUBLASLT");
    ASSERT_TRUE(device.ok()) << device.status();
    loadLibrary(**device);
    StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(1024);
    ASSERT_TRUE(memory.ok());
    const Operand a{ElementType::F32, {2, 3}, 0, 0}, b{ElementType::F32, {3, 2}, 0, 64},
        c{ElementType::F32, {2, 2}, 0, 128};
    const std::vector<Command> commands = {{"gemm", "", {a, b}, {c}, {}, {}},
                                           {"gemm", "", {a, b}, {c}, {{"accumulate", int64_t{1}}}, {0}}};
    DeviceMemory *const arenas[] = {memory->get()};
    StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
    ASSERT_TRUE(program.ok()) << program.status();
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    ASSERT_TRUE((*memory)->write(0, values.data(), 24).ok());
    ASSERT_TRUE((*memory)->write(64, values.data(), 24).ok());
    calls = {};
    ASSERT_TRUE((*program)->execute().ok());
    std::vector<float> result(4);
    ASSERT_TRUE((*memory)->read(128, result.data(), 16).ok());
    EXPECT_EQ(result, (std::vector<float>{44, 56, 98, 128})); // twice [[22, 28], [49, 64]]
    EXPECT_EQ(calls.kernels, *library ? 2 : 0);
  }
  ::setenv("SLUICE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
  StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
  ::unsetenv("SLUICE_CUBLASLT");
  EXPECT_NE(std::string(device.status().message()).find("no cuBLASLt"), std::string::npos) << device.status();
}

/// Memory that starts as zeros takes five staging parts of data and gives them back; whether they are whole.
bool dataSurvives(Device &device) {
  std::vector<uint32_t> data((5u << 20) / 4), result(data.size());
  std::iota(data.begin(), data.end(), 1u);
  StatusOr<std::unique_ptr<DeviceMemory>> memory = device.allocate(data.size() * 4);
  return memory.ok() && (*memory)->write(0, data.data(), data.size() * 4).ok() &&
         (*memory)->read(0, result.data(), result.size() * 4).ok() && data == result;
}

TEST_F(CudaExecutor, EveryWaitAndEventIsNeeded) {
  struct Case {
    const char *name;
    void (*change)(Driver &);
    bool survives;
  };
  for (const Case &c :
       {Case{"as it is", [](Driver &) {}, true},
        {"no wait before results are used",
         [](Driver &driver) { driver.streamSynchronize = [](CUstream) { return CUresult(0); }; }, false},
        {"no wait before staging memory is used again",
         [](Driver &driver) { driver.eventSynchronize = [](CUevent) { return CUresult(0); }; }, false},
        {"no event behind the last copy",
         [](Driver &driver) { driver.eventRecord = [](CUevent, CUstream) { return CUresult(0); }; }, false},
        {"memory cleared outside of the stream",
         [](Driver &driver) {
           driver.memorySet8 = [](CUdeviceptr place, unsigned char value, size_t size, CUstream) {
             return original.memorySet8(place, value, size, nullptr);
           };
         },
         false},
        {"copies outside of the stream",
         [](Driver &driver) {
           driver.copyToDevice = [](CUdeviceptr place, const void *source, size_t size, CUstream) {
             return original.copyToDevice(place, source, size, nullptr);
           };
         },
         false}}) {
    bool survived = true;
    for (const char *settings : {"seed=0", "seed=1", "seed=2", "seed=3", "seed=4"}) {
      simulatorFunction<void()>("cudasimReset")();
      configure(settings);
      StatusOr<std::unique_ptr<Device>> device = deviceWith(c.change);
      ASSERT_TRUE(device.ok()) << device.status();
      survived = survived && dataSurvives(**device);
    }
    EXPECT_EQ(survived, c.survives) << c.name;
  }
}

/// A result that is asked for, and written over before it is looked at.
bool resultsSurvive(Device &device) {
  const std::vector<uint32_t> data = {1, 2, 3, 4}, later = {5, 6, 7, 8};
  std::vector<uint32_t> result(4);
  StatusOr<std::unique_ptr<DeviceMemory>> memory = device.allocate(16);
  StatusOr<std::unique_ptr<DeviceReadback>> readback = device.createReadback(20);
  if (!memory.ok() || !readback.ok() || !(*memory)->write(0, data.data(), 16).ok())
    return false;
  const ReadbackPart parts[] = {{memory->get(), 8, 8, 0}, {memory->get(), 0, 8, 8}};
  if (!(*readback)->fetch(parts, 4).ok() || !(*memory)->write(0, later.data(), 16).ok() ||
      !(*readback)->wait().ok())
    return false;
  std::memcpy(result.data(), (*readback)->bytes() + 4, 16);
  return result == std::vector<uint32_t>{3, 4, 1, 2};
}

TEST_F(CudaExecutor, AReadbackWaitsForItsFetchAlone) {
  struct Case {
    const char *name;
    void (*change)(Driver &);
    bool survives;
  };
  for (const Case &c :
       {Case{"as it is", count, true},
        {"no wait for its event",
         [](Driver &driver) { driver.eventSynchronize = [](CUevent) { return CUresult(0); }; }, false},
        {"no event behind its copies",
         [](Driver &driver) { driver.eventRecord = [](CUevent, CUstream) { return CUresult(0); }; }, false},
        {"copies outside of the stream",
         [](Driver &driver) {
           driver.copyToHost = [](void *target, CUdeviceptr place, size_t size, CUstream) {
             return original.copyToHost(target, place, size, nullptr);
           };
         },
         false}}) {
    bool survived = true;
    for (const char *settings : {"seed=0", "seed=1", "seed=2", "seed=3", "seed=4"}) {
      simulatorFunction<void()>("cudasimReset")();
      configure(settings);
      StatusOr<std::unique_ptr<Device>> device = deviceWith(c.change);
      ASSERT_TRUE(device.ok()) << device.status();
      calls = {};
      survived = survived && resultsSurvive(**device);
      if (c.survives)
        EXPECT_EQ(calls.streamWaits, 0);
    }
    EXPECT_EQ(survived, c.survives) << c.name;
  }
  StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
  ASSERT_TRUE(device.ok()) << device.status();
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(16);
  StatusOr<std::unique_ptr<DeviceReadback>> readback = (*device)->createReadback(8);
  ASSERT_TRUE(memory.ok() && readback.ok());
  const ReadbackPart inside{memory->get(), 8, 8, 0}, beyond{memory->get(), 12, 8, 0};
  EXPECT_TRUE((*readback)->fetch({&inside, 1}, 0).ok());
  EXPECT_FALSE((*readback)->fetch({&inside, 1}, 4).ok()) << "outside of the room";
  EXPECT_FALSE((*readback)->fetch({&beyond, 1}, 0).ok()) << "outside of the memory";
}

TEST_F(CudaExecutor, KernelsThatMoveDataMoveWhatTheyMust) {
  configure("statistics=1");
  StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
  ASSERT_TRUE(device.ok()) << device.status();
  loadLibrary(**device);
  constexpr int64_t n = 2100;
  constexpr uint64_t step = 8448; // n floats, a multiple of 64 bytes
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(5 * step);
  ASSERT_TRUE(memory.ok());
  const float one = 1;
  ASSERT_TRUE((*memory)->write(4 * step, &one, 4).ok());
  const Operand w = at(0, n), m = at(step, n), v = at(2 * step, n), g = at(3 * step, n),
                scalar = at(4 * step, 1);
  const std::vector<Command> commands = {
      {"fill", "", {}, {w}, {{"value", 1.0}}, {}},
      {"copy", "", {w}, {m}, {}, {}},
      {"global_norm", "", {w}, {at(4 * step + 64, 1)}, {}, {}},
      {"adamw",
       "",
       {w, m, v, g, scalar, scalar, scalar, scalar},
       {w, m, v, g},
       {{"beta1", 0.9}, {"beta2", 0.9}, {"epsilon", 1e-8}, {"weight_decay", 0.0}, {"clip", 0.0}},
       {}}};
  DeviceMemory *const arenas[] = {memory->get()};
  StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
  ASSERT_TRUE(program.ok()) << program.status();
  simulatorFunction<void()>("cudasimClearStatistics")();
  ASSERT_TRUE((*program)->execute().ok());
  float value = 0;
  ASSERT_TRUE((*memory)->read(0, &value, 4).ok());
  std::map<std::string, std::pair<int64_t, int64_t>> bytes; // loaded, stored
  std::istringstream lines(simulatorFunction<const char *()>("cudasimStatistics")());
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    bytes[record["kernel"]] = {record["global_load_bytes"], record["global_store_bytes"]};
  }
  const int64_t pieces = 1, blocks = 3; // of 8192, of 1024 elements
  EXPECT_EQ(bytes["fill_4"], std::make_pair(int64_t{0}, 4 * n));
  EXPECT_EQ(bytes["strided_copy_4"], std::make_pair(4 * n, 4 * n));
  EXPECT_EQ(bytes["squares"], std::make_pair(4 * n, 8 * pieces));
  EXPECT_EQ(bytes["global_norm"], std::make_pair(8 * pieces, int64_t{4}));
  // Four arrays read and written; each block reads four scalars.
  EXPECT_EQ(bytes["adamw"], std::make_pair(16 * n + 16 * blocks, 16 * n));
}

} // namespace
} // namespace sluice::cuda
