// Pinned host memory through which copies to and from the device go, so that the host need not wait for them.
#pragma once

#include "runtime/device/cuda/Driver.h"

namespace sluice::cuda {

/// Two halves for copies to the device, used in turn: one is filled while copies from the other may still
/// run, and is filled again only when the event behind its last copy has passed. One more part for results.
class Staging {
public:
  static constexpr uint64_t partBytes = uint64_t{1} << 20;

  Status create(const Driver &driver);
  void destroy(const Driver &driver);

  /// Room for `size` <= partBytes bytes whose copy will be the next work of `stream`.
  StatusOr<void *> reserve(const Driver &driver, CUstream stream, uint64_t size);
  /// partBytes bytes; the caller waits for the copy into them before it reads or uses them again.
  void *results() const { return memory + 2 * partBytes; }

private:
  std::byte *memory = nullptr;
  CUevent passed[2] = {}; // behind the last copy of each half
  int half = 0;
  uint64_t used = 0; // of the half
};

} // namespace sluice::cuda
