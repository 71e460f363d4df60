// The CUDA device's own work on the simulated driver: no wait inside a run, every wait and event needed,
// bytes of kernels that only move data.
#include "tests/runtime/device/CudaExecutor.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include <map>
#include <numeric>
#include <set>
#include <sstream>

namespace sluice::cuda {
namespace {

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
  const int64_t pieces = 1, blocks = 1; // of 8192, of 4096 elements
  EXPECT_EQ(bytes["fill_4"], std::make_pair(int64_t{0}, 4 * n));
  EXPECT_EQ(bytes["strided_copy_4"], std::make_pair(4 * n, 4 * n));
  EXPECT_EQ(bytes["squares"], std::make_pair(4 * n, 8 * pieces));
  EXPECT_EQ(bytes["global_norm"], std::make_pair(8 * pieces, int64_t{4}));
  // Four arrays read and written; each block reads four scalars.
  EXPECT_EQ(bytes["adamw"], std::make_pair(16 * n + 16 * blocks, 16 * n));
}

/// Tiles are filled along the reduced dimension or across it, with 16 to 256 lines: none of them makes two
/// lanes meet in a bank of shared memory.
TEST_F(CudaExecutor, NoTileOfAProductMeetsABankTwice) {
  configure("statistics=1");
  ::setenv("SLUICE_CUBLASLT", "none", 1);
  StatusOr<std::unique_ptr<Device>> device = deviceWith([](Driver &) {});
  ::unsetenv("SLUICE_CUBLASLT");
  ASSERT_TRUE(device.ok()) << device.status();
  loadLibrary(**device);
  constexpr int64_t rows = 70, out = 128, in = 192;
  constexpr uint64_t matrix = 192 * 192 * 4; // room for each of them
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(7 * matrix);
  ASSERT_TRUE(memory.ok());
  const std::vector<uint8_t> bits(out * in / 8, 255);
  ASSERT_TRUE((*memory)->write(6 * matrix, bits.data(), bits.size()).ok());
  auto tensor = [](int64_t m, int64_t n, uint64_t place) {
    return Operand{ElementType::F32, {m, n}, 0, place * matrix};
  };
  const Operand x = tensor(rows, in, 0), w = tensor(out, in, 1), y = tensor(rows, out, 2),
                dy = tensor(rows, out, 3), dx = tensor(rows, in, 4), dw = tensor(out, in, 5),
                mask{ElementType::U8, {out * in / 8}, 0, 6 * matrix};
  const int64_t yes = 1;
  std::vector<Command> commands = {{"gemm", "", {x, w}, {y}, {{"transpose_b", yes}}, {}},
                                   {"gemm", "", {dy, w}, {dx}, {}, {}},
                                   {"gemm", "", {dy, x}, {dw}, {{"transpose_a", yes}}, {}}};
  for (const char *pattern : {"block:16x16", "block:32x32", "block:64x64"}) {
    const std::vector<CommandAttribute> settings = {
        {"kept", out * in}, {"skip_at_most", int64_t{0}}, {"pattern", std::string(pattern)}};
    auto with = [&](const char *name) {
      std::vector<CommandAttribute> more = settings;
      more.push_back({name, yes});
      return more;
    };
    commands.push_back({"masked_gemm", "", {x, w, mask}, {y}, with("transpose_b"), {}});
    commands.push_back({"masked_gemm", "", {dy, w, mask}, {dx}, settings, {}});
    commands.push_back({"masked_weight_gradient", "", {dy, x, mask}, {dw}, settings, {}});
  }
  DeviceMemory *const arenas[] = {memory->get()};
  StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
  ASSERT_TRUE(program.ok()) << program.status();
  simulatorFunction<void()>("cudasimClearStatistics")();
  ASSERT_TRUE((*program)->execute().ok());
  uint8_t byte = 0;
  ASSERT_TRUE((*memory)->read(0, &byte, 1).ok());
  std::set<std::string> tiled;
  std::istringstream lines(simulatorFunction<const char *()>("cudasimStatistics")());
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["bank_conflicts"], 0) << record["kernel"];
    if (record["shared_wavefronts"] > 0)
      tiled.insert(record["kernel"]);
  }
  EXPECT_EQ(tiled, (std::set<std::string>{"gemm", "block_gemm_16", "block_gemm_32", "block_gemm_64",
                                          "block_weight_gradient_16", "block_weight_gradient_32",
                                          "block_weight_gradient_64"}));
}

} // namespace
} // namespace sluice::cuda
