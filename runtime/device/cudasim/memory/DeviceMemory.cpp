#include "runtime/device/cudasim/memory/DeviceMemory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace sluice::cudasim {

namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kGap = 256; // never part of an allocation
constexpr size_t kFreedKept = 64;
constexpr uint64_t kPage = 4096;

uint64_t roundUp(uint64_t value) {
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

uint8_t *reserve(uint64_t bytes) {
  void *memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t *>(memory);
}

/// Gives whole pages inside [begin, begin + bytes) back to the system; the rest becomes zero.
void clear(uint8_t *begin, uint64_t bytes) {
  uint8_t *end = begin + bytes;
  uint8_t *firstPage =
      reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(begin) + kPage - 1) & ~(kPage - 1));
  uint8_t *lastPage = reinterpret_cast<uint8_t *>(reinterpret_cast<uintptr_t>(end) & ~(kPage - 1));
  if (firstPage >= lastPage) {
    std::memset(begin, 0, bytes);
    return;
  }
  std::memset(begin, 0, firstPage - begin);
  std::memset(lastPage, 0, end - lastPage);
  if (madvise(firstPage, lastPage - firstPage, MADV_DONTNEED) != 0)
    std::memset(firstPage, 0, lastPage - firstPage);
}

} // namespace

const Allocation *findAllocation(const AllocationList &list, uint64_t address, uint64_t bytes) {
  auto after = std::upper_bound(list.begin(), list.end(), address,
                                [](uint64_t value, const Allocation &a) { return value < a.address; });
  if (after == list.begin())
    return nullptr;
  const Allocation &found = *(after - 1);
  const uint64_t offset = address - found.address;
  return offset < found.bytes && bytes <= found.bytes - offset ? &found : nullptr;
}

StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::create(uint64_t capacity) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory);
  memory->capacityBytes = capacity;
  // Addresses are plentiful: four times the capacity keeps freed memory unused for long.
  memory->reserved = capacity * 4 + kGap;
  memory->base = reserve(memory->reserved);
  memory->shadow = reserve(memory->reserved);
  if (!memory->base || !memory->shadow)
    return failure("simulated device: expected ", memory->reserved * 2,
                   " bytes of address space, the system says: ", std::strerror(errno),
                   "; try a smaller memory= in SLUICE_CUDASIM");
  memory->next = kGap;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (base)
    munmap(base, reserved);
  if (shadow)
    munmap(shadow, reserved);
}

void DeviceMemory::refresh() {
  auto fresh = std::make_shared<AllocationList>();
  fresh->reserve(live.size());
  for (const auto &[offset, bytes] : live)
    fresh->push_back({kGlobalBase + offset, bytes});
  list = std::move(fresh);
}

uint64_t DeviceMemory::findGap(uint64_t bytes) const {
  const uint64_t size = roundUp(bytes) + kGap;
  if (size <= reserved && next <= reserved - size)
    return next;
  uint64_t start = kGap;
  for (const auto &[offset, length] : live) {
    if (start + size <= offset)
      return start;
    start = offset + roundUp(length) + kGap;
  }
  return start + size <= reserved ? start : 0;
}

uint64_t DeviceMemory::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > capacityBytes - usedBytes)
    return 0;
  const uint64_t offset = findGap(bytes);
  if (offset == 0)
    return 0;
  live[offset] = bytes;
  next = std::max(next, offset + roundUp(bytes) + kGap);
  usedBytes += bytes;
  std::memset(base + offset, 0xff, bytes);
  clear(shadow + offset, bytes);
  refresh();
  return kGlobalBase + offset;
}

bool DeviceMemory::free(uint64_t address) {
  auto found = live.find(address - kGlobalBase);
  if (address < kGlobalBase || found == live.end())
    return false;
  const auto [offset, bytes] = *found;
  clear(base + offset, bytes);
  freed.push_back({address, bytes});
  if (freed.size() > kFreedKept)
    freed.erase(freed.begin());
  usedBytes -= bytes;
  live.erase(found);
  refresh();
  return true;
}

const Allocation *DeviceMemory::findFreed(uint64_t address) const {
  for (auto one = freed.rbegin(); one != freed.rend(); ++one)
    if (address >= one->address && address - one->address < one->bytes)
      return &*one;
  return nullptr;
}

void DeviceMemory::markWritten(uint64_t address, uint64_t bytes) {
  std::memset(written(address), 1, bytes);
}

} // namespace sluice::cudasim
