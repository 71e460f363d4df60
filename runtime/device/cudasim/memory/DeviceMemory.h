// Global memory of the simulated device: allocations with gaps between them, poisoned, with shadows for the
// checks.
#pragma once

#include "runtime/device/cudasim/memory/AddressMap.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace sluice::cudasim {

struct Allocation {
  uint64_t address = 0; // on the device
  uint64_t bytes = 0;
};

/// The allocations at one moment, sorted by address; a launch keeps the list that it began with.
using AllocationList = std::vector<Allocation>;

/// The allocation that holds all of [address, address + bytes), null when none does.
const Allocation *findAllocation(const AllocationList &list, uint64_t address, uint64_t bytes);

class DeviceMemory {
public:
  /// Reserves address space for `capacity` bytes of live allocations. Errors: the system refuses.
  static StatusOr<std::unique_ptr<DeviceMemory>> create(uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  /// A new allocation, aligned to 256 bytes and filled with 0xFF (a NaN in every float type). Memory that
  /// was freed is not used again before the address space is exhausted. 0 when `bytes` does not fit.
  uint64_t allocate(uint64_t bytes);
  /// False when `address` is not the start of an allocation.
  bool free(uint64_t address);

  uint64_t capacity() const { return capacityBytes; }
  uint64_t used() const { return usedBytes; }
  std::shared_ptr<const AllocationList> allocations() const { return list; }
  /// The allocation that was freed last and held `address`, null when there is none.
  const Allocation *findFreed(uint64_t address) const;

  /// Host memory behind a device address that an allocation holds.
  uint8_t *host(uint64_t address) const { return base + (address - kGlobalBase); }
  /// One byte for each byte of the device: 1 when it was written. Behind host(address).
  uint8_t *written(uint64_t address) const { return shadow + (address - kGlobalBase); }
  void markWritten(uint64_t address, uint64_t bytes);

private:
  DeviceMemory() = default;
  uint64_t findGap(uint64_t bytes) const;
  void refresh();

  uint8_t *base = nullptr;   // reserved, pages appear when they are touched
  uint8_t *shadow = nullptr; // as large as `base`
  uint64_t reserved = 0, capacityBytes = 0, usedBytes = 0;
  uint64_t next = 0;                 // offset behind the last allocation
  std::map<uint64_t, uint64_t> live; // offset -> bytes
  std::vector<Allocation> freed;     // the last ones
  std::shared_ptr<const AllocationList> list = std::make_shared<AllocationList>();
};

} // namespace sluice::cudasim
