// The CPU device: the library of command kinds of docs/commands.md in float32, and generated kernels, on a
// fixed pool of threads.
#pragma once

#include "runtime/device/Device.h"

namespace sluice {

/// A CPU device that works with `threads` >= 1 threads, the caller of execute() among them. Results have the
/// same bits for any thread count. The device and what it made are to be used by one thread at a time, and
/// the device must outlive its memory and programs. Errors: a thread count outside 1 .. 1024.
StatusOr<std::unique_ptr<Device>> createCpuDevice(int threads);

} // namespace sluice
