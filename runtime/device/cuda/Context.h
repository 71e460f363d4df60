// One device of a driver: its context and stream, memory, and loaded kernels. Shared by what the device
// makes.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Blas.h"
#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/Staging.h"

#include <map>

namespace sluice::cuda {

/// Owns the primary context's reference and one stream. All calls of one context come from one thread at a
/// time.
class Context {
public:
  /// With the cuBLASLt that SLUICE_CUBLASLT names ("none": none), else the driver's. Errors: no such device;
  /// a variable of the environment with a bad value (usage).
  static StatusOr<std::shared_ptr<Context>> create(std::shared_ptr<const Driver> driver, int ordinal);
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;
  ~Context();

  /// Makes the context the calling thread's; every public operation begins with it.
  Status enter() const {
    return driver->check(driver->contextSetCurrent(context), "entering the CUDA context");
  }
  const Driver &api() const { return *driver; }

  /// Copies to and from the device, in the stream's order. After copyIn the source may be used again, but
  /// nothing has waited for the device; copyOut waits, and says as an error (bad input) whether a program
  /// before it met data that a kernel must not follow.
  Status copyIn(CUdeviceptr target, const void *source, uint64_t size);
  Status copyOut(void *target, CUdeviceptr source, uint64_t size);
  /// Waits for an event of the stream; errors as copyOut.
  Status waitFor(CUevent event);

  /// Whether commands are launched one at a time, each waited for, so that an error names the one that
  /// failed: where the environment has SLUICE_CUDA_SYNC=1. A replayed graph only says that it failed.
  bool runsCommandsAlone() const { return alone; }
  /// Waits for a command that was launched alone. Errors as copyOut, with its name.
  Status waitForCommand(const std::string &name);
  /// What errors of the work that is launched from now on name: a command, or something that holds many.
  void setLast(std::string_view name, bool isCommand) {
    last = name;
    lastIsCommand = isCommand;
  }

  /// The flag that kernels raise, in device memory, and the copy of it that every program ends with.
  std::byte *damageFlag() const { return reinterpret_cast<std::byte *>(damage); }
  Status enqueueDamageCopy();

  /// Loads a module and its kernels. Errors: the driver refuses the module, or a kernel is not in it.
  Status loadModule(const std::string &bytes, const std::vector<std::string> &kernels);

  /// What was chosen while programs were prepared, a line each.
  std::vector<std::string> choices;
  /// cuBLASLt; null: the device's own kernel multiplies.
  std::shared_ptr<const Blas> blas;
  CUstream stream = nullptr;
  CUdevice device = 0;
  int major = 0, minor = 0; // compute capability
  std::string deviceName;
  std::map<std::string, CUfunction, std::less<>> kernels;

private:
  explicit Context(std::shared_ptr<const Driver> driver) : driver(std::move(driver)) {}
  /// Of work that was waited for: the driver's error or the damage that it met.
  Status outcome(CUresult result);
  Status checkDamage();
  /// How to learn more of an error that does not name a command.
  std::string hint() const;

  std::shared_ptr<const Driver> driver;
  CUcontext context = nullptr;
  std::vector<CUmodule> modules;
  Staging staging;
  CUdeviceptr damage = 0;
  void *damageSeen = nullptr; // pinned: one int32
  bool alone = false;
  std::string last = "waiting for the CUDA device";
  bool lastIsCommand = true; // nothing to be learnt of what is no program
};

/// Device memory, zeroed, 256-byte aligned; freed on destruction.
class CudaMemory final : public DeviceMemory {
public:
  static StatusOr<std::unique_ptr<CudaMemory>> allocate(std::shared_ptr<Context> context, uint64_t bytes);
  ~CudaMemory() override;
  uint64_t bytes() const override { return length; }
  std::byte *address() const override { return reinterpret_cast<std::byte *>(start); }
  Status write(uint64_t offset, const void *source, uint64_t size) override;
  Status read(uint64_t offset, void *target, uint64_t size) const override;

private:
  CudaMemory(std::shared_ptr<Context> context, CUdeviceptr start, uint64_t length)
      : context(std::move(context)), start(start), length(length) {}
  Status checkRange(uint64_t offset, uint64_t size, std::string_view what) const;

  std::shared_ptr<Context> context;
  CUdeviceptr start;
  uint64_t length;
};

} // namespace sluice::cuda
