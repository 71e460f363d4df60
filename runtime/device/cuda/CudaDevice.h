// The CUDA device: the library of command kinds of docs/commands.md and generated kernels, a program as one
// graph that is captured once and replayed.
#pragma once

#include "runtime/device/Device.h"

namespace sluice {

namespace cuda {
class Driver;
} // namespace cuda

/// Opens device `ordinal` of the driver `library` ("libcuda.so.1", or the simulated driver's path); `name` is
/// what the device calls itself ("cuda:0", "cuda-sim"). To be used by one thread at a time; must outlive its
/// memory and programs. Running a program
/// does not wait for it: reading memory does, and reports what went wrong in the program. Errors (failure,
/// one line): no driver, no such device.
StatusOr<std::unique_ptr<Device>> createCudaDevice(const std::string &library, int ordinal,
                                                   const std::string &name);

/// The same over a driver that is open already; tests give one whose entry points they have changed.
StatusOr<std::unique_ptr<Device>> createCudaDevice(std::shared_ptr<const cuda::Driver> driver, int ordinal,
                                                   const std::string &name);

} // namespace sluice
