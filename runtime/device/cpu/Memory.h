// Host memory of the CPU device: 64-byte aligned, zeroed, in huge pages where the system gives them.
#pragma once

#include "runtime/device/Device.h"

#include <cstddef>

namespace sluice::cpu {

/// An anonymous map, freed on destruction. Movable, not copyable.
class HostBlock {
public:
  HostBlock() = default;
  HostBlock(HostBlock &&other) noexcept;
  HostBlock &operator=(HostBlock &&other) noexcept;
  ~HostBlock();
  /// Errors: the system has not that much memory.
  static StatusOr<HostBlock> allocate(uint64_t bytes);
  std::byte *data() const { return start; }
  uint64_t size() const { return length; }

private:
  std::byte *start = nullptr;
  uint64_t length = 0;
};

class CpuMemory final : public DeviceMemory {
public:
  explicit CpuMemory(HostBlock block) : block(std::move(block)) {}
  uint64_t bytes() const override { return block.size(); }
  Status write(uint64_t offset, const void *source, uint64_t size) override;
  Status read(uint64_t offset, void *target, uint64_t size) const override;
  std::byte *address() const override { return block.data(); }

private:
  HostBlock block;
};

} // namespace sluice::cpu
