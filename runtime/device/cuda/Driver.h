// A CUDA driver opened by name: the real libcuda.so.1 or the simulated one. Nothing is linked.
#pragma once

#include "runtime/abi/CudaDriver.h"
#include "runtime/support/Status.h"

#include <memory>

namespace sluice::cuda {

/// The entry points of one driver library. Stays open for the life of the process: a driver does not like to
/// be unloaded.
class Driver {
public:
#define SLUICE_CUDA_MEMBER(entry, name, parameters) CUresult(*entry) parameters = nullptr;
  SLUICE_CUDA_DRIVER(SLUICE_CUDA_MEMBER)
#undef SLUICE_CUDA_MEMBER
  /// What went wrong in the last failed call, in words (a PTX error with its line, a finding): the simulated
  /// driver's own addition, null with a real one.
  const char *(*explanation)() = nullptr;

  /// Opens `library` and initialises it. Errors (failure, one line): the library is not there, it lacks an
  /// entry point, or there is no device.
  static StatusOr<std::shared_ptr<const Driver>> open(const std::string &library);

  /// OK for Success; else a failure that names `what`, the driver's code and its words.
  Status check(CUresult result, std::string_view what) const;
};

} // namespace sluice::cuda
