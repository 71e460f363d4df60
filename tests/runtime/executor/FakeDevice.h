// A device for tests that knows memory and no arithmetic: it records what the session asks of it.
#pragma once

#include "runtime/device/Device.h"

#include <cstring>
#include <functional>

namespace sluice::testing {

class FakeMemory : public DeviceMemory {
public:
  explicit FakeMemory(uint64_t size) : contents(size, '\0') {}
  uint64_t bytes() const override { return contents.size(); }
  std::byte *address() const override { return nullptr; } // nothing here computes
  Status write(uint64_t offset, const void *source, uint64_t size) override {
    if (offset > contents.size() || size > contents.size() - offset)
      return failure("write outside the memory");
    std::memcpy(contents.data() + offset, source, size);
    return absl::OkStatus();
  }
  Status read(uint64_t offset, void *target, uint64_t size) const override {
    if (offset > contents.size() || size > contents.size() - offset)
      return failure("read outside the memory");
    std::memcpy(target, contents.data() + offset, size);
    return absl::OkStatus();
  }

private:
  std::string contents;
};

class FakeDevice : public Device {
public:
  std::string name() const override { return "cpu"; }
  StatusOr<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
    log += concat("allocate ", bytes, "\n");
    auto memory = std::make_unique<FakeMemory>(bytes);
    memories.push_back(memory.get());
    return memory;
  }
  Status loadKernels(const KernelImage &image) override {
    log += concat("load ", image.target, " ", image.bytes.size(), "\n");
    return absl::OkStatus();
  }
  StatusOr<std::unique_ptr<DeviceProgram>> prepare(absl::Span<const Command> commands,
                                                   absl::Span<DeviceMemory *const> arenas) override {
    log += concat("prepare ", commands.size(), "\n");
    struct Program : DeviceProgram {
      FakeDevice *device;
      size_t count;
      Program(FakeDevice *device, size_t count) : device(device), count(count) {}
      Status execute() override {
        if (device->onExecute) {
          device->onExecute(count);
          return absl::OkStatus();
        }
        device->log += concat("execute ", count, "\n");
        return absl::OkStatus();
      }
      Status executeCommand(size_t) override { return absl::OkStatus(); }
    };
    return std::make_unique<Program>(this, commands.size());
  }
  Status refreshDerivedState() override {
    log += "refresh\n";
    return absl::OkStatus();
  }

  std::string log;
  std::vector<FakeMemory *> memories;             // in the order of allocation
  std::function<void(size_t commands)> onExecute; // instead of the log, if set
};

} // namespace sluice::testing
