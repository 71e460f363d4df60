// Results that come back to pinned memory while the host goes on.
#pragma once

#include "runtime/device/cuda/Context.h"

namespace sluice::cuda {

/// Copies in the stream's order, and an event behind the last of each fetch.
class CudaReadback final : public DeviceReadback {
public:
  /// Errors (failure): no pinned memory.
  static StatusOr<std::unique_ptr<CudaReadback>> create(std::shared_ptr<Context> context, uint64_t bytes);
  ~CudaReadback() override;
  Status fetch(absl::Span<const ReadbackPart> parts, uint64_t base) override;
  Status wait() override;
  const std::byte *bytes() const override { return memory; }

private:
  CudaReadback(std::shared_ptr<Context> context, uint64_t length)
      : context(std::move(context)), length(length) {}

  std::shared_ptr<Context> context;
  uint64_t length;
  std::byte *memory = nullptr;
  CUevent arrived = nullptr;
};

} // namespace sluice::cuda
