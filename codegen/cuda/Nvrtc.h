// NVRTC, the compiler of CUDA C++, opened by name where it is asked for.
#pragma once

#include "runtime/support/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::cuda {

/// What is compiled: one translation unit. Headers are those of librarySources().
struct TranslationUnit {
  std::string name; // for messages: "Route.cu"
  std::string source;
};

class Nvrtc {
public:
  /// The library in $SLUICE_NVRTC, else libnvrtc.so.13 or .12 where the system finds it or the toolkit puts
  /// it. Error (failure): none is there; the message says how to get one.
  static StatusOr<std::shared_ptr<const Nvrtc>> open();

  int version() const { return major * 1000 + minor * 10; } // 13000

  /// Compiles for `architecture`: "sm_80" gives a cubin, "compute_80" PTX text. Thread-safe. Errors
  /// (failure): NVRTC's log.
  StatusOr<std::string> compile(const TranslationUnit &unit, const std::string &architecture) const;

private:
  struct Api;
  std::shared_ptr<const Api> api;
  int major = 0, minor = 0;
};

/// Options given to every compilation; part of the cache's key.
std::vector<std::string> compileOptions(const std::string &architecture);

} // namespace sluice::cuda
