// Runs a few commands on a device three times, with other threads (CPU) or other orders (simulated CUDA), and
// demands the same bits. The test program says which device: it defines testDevice.
#pragma once

#include "runtime/device/Device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace sluice::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Shape = std::vector<int64_t>;

inline int64_t count(const Shape &shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

/// Normal values, the same on every run.
inline Floats randomFloats(int64_t n, int seed, double deviation = 1.0) {
  std::mt19937_64 generator(static_cast<uint64_t>(seed) * 7919 + 1);
  std::normal_distribution<double> normal(0.0, deviation);
  Floats values(static_cast<size_t>(n));
  for (float &value : values)
    value = static_cast<float>(normal(generator));
  return values;
}

inline double relativeError(const Floats &got, const Doubles &want) {
  EXPECT_EQ(got.size(), want.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

#define EXPECT_CLOSE(got, want) EXPECT_LE(::sluice::test::relativeError(got, want), 1e-5)

/// The device under test, in variant 1, 2 or 3; each test program has its own (CpuTestDevice.cpp,
/// CudaTestDevice.cpp). The device stays with the program.
StatusOr<Device *> testDevice(int variant);

/// What the device's own checks found while variant 1 ran, as an error.
Status checkTestDevice();

/// Whether the device is fast enough for shapes that cross the CPU's block sizes too (the simulated GPU is
/// not).
extern const bool takesLargeShapes;

/// `cases` and, where the device takes them, `large`.
template <typename Case> std::vector<Case> casesFor(std::vector<Case> cases, const std::vector<Case> &large) {
  if (takesLargeShapes)
    cases.insert(cases.end(), large.begin(), large.end());
  return cases;
}

class CommandRunner {
public:
  Operand floats(const Shape &shape, const Floats &values) {
    EXPECT_EQ(static_cast<int64_t>(values.size()), count(shape));
    return place(ElementType::F32, shape, values.data(), values.size() * 4);
  }
  Operand integers(const Shape &shape, const std::vector<int32_t> &values) {
    EXPECT_EQ(static_cast<int64_t>(values.size()), count(shape));
    return place(ElementType::I32, shape, values.data(), values.size() * 4);
  }
  Operand longs(const Shape &shape, const std::vector<int64_t> &values) {
    return place(ElementType::I64, shape, values.data(), values.size() * 8);
  }
  Operand bytes(const std::vector<uint8_t> &values) {
    return place(ElementType::U8, {static_cast<int64_t>(values.size())}, values.data(), values.size());
  }
  /// Memory that starts as NaN (or, as integers, as nonsense): what a command must write, it must write.
  Operand output(const Shape &shape, ElementType type = ElementType::F32) {
    std::vector<uint8_t> garbage(static_cast<size_t>(count(shape) * elementSize(type)), 0xff);
    return place(type, shape, garbage.data(), garbage.size());
  }

  void add(const std::string &kind, const std::vector<Operand> &inputs, const std::vector<Operand> &outputs,
           const std::vector<CommandAttribute> &attributes = {}) {
    commands.push_back({kind, "test", inputs, outputs, attributes, {}});
  }

  /// Executes on that variant of the device; the arena's bytes afterwards are kept.
  Status runWith(int variant) {
    SLUICE_ASSIGN_OR_RETURN(Device * device, testDevice(variant));
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device->allocate(arena.size() + 64));
    SLUICE_RETURN_IF_ERROR(memory->write(0, arena.data(), arena.size()));
    DeviceMemory *const arenas[] = {memory.get()};
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceProgram> program, device->prepare(commands, arenas));
    SLUICE_RETURN_IF_ERROR(program->execute());
    result.resize(arena.size());
    SLUICE_RETURN_IF_ERROR(memory->read(0, result.data(), result.size()));
    return checkTestDevice();
  }

  void run() {
    std::vector<uint8_t> first;
    for (int variant : {1, 2, 3}) {
      Status status = runWith(variant);
      ASSERT_TRUE(status.ok()) << status;
      if (variant == 1)
        first = result;
      EXPECT_EQ(first, result) << "other bits in variant " << variant;
    }
  }

  Floats read(const Operand &operand) const {
    Floats values(static_cast<size_t>(operand.elements()));
    if (!values.empty())
      std::memcpy(values.data(), result.data() + operand.offset, values.size() * 4);
    return values;
  }
  std::vector<uint8_t> readBytes(const Operand &operand) const {
    const auto begin = result.begin() + static_cast<int64_t>(operand.offset);
    return {begin, begin + operand.elements()};
  }
  std::vector<int32_t> readIntegers(const Operand &operand) const {
    std::vector<int32_t> values(static_cast<size_t>(operand.elements()));
    if (!values.empty())
      std::memcpy(values.data(), result.data() + operand.offset, values.size() * 4);
    return values;
  }

private:
  Operand place(ElementType type, const Shape &shape, const void *bytes, size_t size) {
    Operand operand{type, shape, 0, arena.size()};
    arena.resize((arena.size() + size + 63) / 64 * 64);
    if (size)
      std::memcpy(arena.data() + operand.offset, bytes, size);
    return operand;
  }

  std::vector<Command> commands;
  std::vector<uint8_t> arena, result;
};

inline CommandAttribute flag(const std::string &name, int64_t value) {
  return {name, value};
}
inline CommandAttribute real(const std::string &name, double value) {
  return {name, value};
}
inline CommandAttribute text(const std::string &name, const std::string &value) {
  return {name, value};
}

} // namespace sluice::test
