// The device itself: memory, checks of commands from outside, and generated kernels.
#include "runtime/device/cpu/CpuDevice.h"
#include "tests/runtime/device/CommandRunner.h"

#include "runtime/support/File.h"

namespace sluice::test {
namespace {

TEST(CpuDevice, MemoryStartsAsZeroAndRefusesRangesOutside) {
  auto device = createCpuDevice(2);
  ASSERT_TRUE(device.ok());
  auto memory = (*device)->allocate(100);
  ASSERT_TRUE(memory.ok());
  char bytes[100];
  ASSERT_TRUE((*memory)->read(0, bytes, 100).ok());
  for (char byte : bytes)
    EXPECT_EQ(byte, 0);
  EXPECT_FALSE((*memory)->read(1, bytes, 100).ok());
  EXPECT_FALSE((*memory)->write(101, bytes, 0).ok());
  EXPECT_FALSE((*memory)->write(UINT64_MAX, bytes, 2).ok());
  EXPECT_FALSE((*device)->allocate(UINT64_MAX).ok());
  EXPECT_EQ(exitCode(createCpuDevice(0).status()), ExitCode::Usage);
}

/// The error of preparing one gemm whose A is `a`.
std::string refusal(const Operand &a) {
  CommandRunner runner;
  const Operand b = runner.output({4, 4}), c = runner.output({4, 4});
  runner.add("gemm", {a, b}, {c});
  Status status = runner.runWith(1);
  EXPECT_EQ(exitCode(status), ExitCode::BadInput);
  return std::string(status.message());
}

TEST(CpuDevice, OperandsAreCheckedAgainstTheirArenas) {
  EXPECT_NE(refusal({ElementType::F32, {4, 4}, 1, 0}).find("arena"), std::string::npos);
  EXPECT_NE(refusal({ElementType::F32, {4, 4}, -1, 0}).find("arena"), std::string::npos);
  EXPECT_NE(refusal({ElementType::F32, {4, 4}, 0, 4096}).find("needs bytes"), std::string::npos);
  EXPECT_NE(refusal({ElementType::F32, {4, 4}, 0, UINT64_MAX - 63}).find("needs bytes"), std::string::npos);
  EXPECT_NE(refusal({ElementType::F32, {4, 4}, 0, 4}).find("multiple of 64"), std::string::npos);
  EXPECT_NE(refusal({ElementType::F32, {int64_t{1} << 40, int64_t{1} << 40}, 0, 0}).find("2^42"),
            std::string::npos);
  EXPECT_NE(refusal({ElementType::F32, {-4, -4}, 0, 0}).find("2^42"), std::string::npos);
  EXPECT_NE(refusal({ElementType::F64, {4, 4}, 0, 0}).find("must be f32"), std::string::npos);
}

TEST(CpuDevice, AllUnknownKindsAndMissingKernelsAreListedAtOnce) {
  CommandRunner runner;
  runner.add("gemmm", {}, {});
  runner.add("softmax", {}, {});
  runner.add("launch", {}, {}, {text("kernel", "k9"), flag("tiles", 1)});
  const std::string message(runner.runWith(1).message());
  for (const char *part : {"gemmm", "softmax", "k9"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(CpuDevice, AttributesOfAnotherTypeAreNamed) {
  CommandRunner runner;
  const Operand x = runner.floats({1, 2, 4}, Floats(8));
  runner.add("rope", {x}, {x}, {flag("heads", 2), text("head_dim", "2"), real("theta", 1e4)});
  EXPECT_NE(std::string(runner.runWith(1).message()).find("head_dim"), std::string::npos);
}

class Kernels : public testing::Test {
protected:
  /// Loads the image and runs its kernel `name` over x[1000] in 10 tiles: y = 2 x.
  Status launch(const std::string &name, const std::string &bytes, Floats &y) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createCpuDevice(2));
    SLUICE_RETURN_IF_ERROR(device->loadKernels({"cpu:x86-64-v1", bytes}));
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device->allocate(8192));
    Floats x(1000);
    for (int i = 0; i < 1000; ++i)
      x[i] = static_cast<float>(i);
    SLUICE_RETURN_IF_ERROR(memory->write(0, x.data(), 4000));
    Command command{"launch",
                    "test",
                    {{ElementType::F32, {1000}, 0, 0}},
                    {{ElementType::F32, {1000}, 0, 4096}},
                    {text("kernel", name), flag("tiles", 10)},
                    {}};
    DeviceMemory *const arenas[] = {memory.get()};
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceProgram> program, device->prepare({command}, arenas));
    SLUICE_RETURN_IF_ERROR(program->execute());
    y.resize(1000);
    return memory->read(4096, y.data(), 4000);
  }
};

TEST_F(Kernels, AreLoadedFromMemoryAndLaunched) {
  auto image = readFile(SLUICE_TEST_KERNEL);
  ASSERT_TRUE(image.ok()) << image.status();
  Floats y;
  Status status = launch("twice", *image, y);
  ASSERT_TRUE(status.ok()) << status;
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(y[i], 2.0f * static_cast<float>(i));
}

TEST_F(Kernels, OfAnotherAbiVersionOrDamagedAreRefused) {
  Floats y;
  auto image = readFile(SLUICE_TEST_OLD_KERNEL);
  ASSERT_TRUE(image.ok());
  EXPECT_NE(std::string(launch("twice", *image, y).message()).find("ABI version"), std::string::npos);
  EXPECT_EQ(exitCode(launch("twice", "not an image", y)), ExitCode::BadInput);
}

} // namespace
} // namespace sluice::test
