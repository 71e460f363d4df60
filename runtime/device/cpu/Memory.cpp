#include "runtime/device/cpu/Memory.h"

#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace sluice::cpu {

HostBlock::HostBlock(HostBlock &&other) noexcept
    : start(std::exchange(other.start, nullptr)), length(std::exchange(other.length, 0)) {}

HostBlock &HostBlock::operator=(HostBlock &&other) noexcept {
  std::swap(start, other.start);
  std::swap(length, other.length);
  return *this;
}

HostBlock::~HostBlock() {
  if (start)
    ::munmap(start, length);
}

StatusOr<HostBlock> HostBlock::allocate(uint64_t bytes) {
  HostBlock block;
  if (bytes == 0)
    return block;
  void *address = bytes > INT64_MAX
                      ? MAP_FAILED
                      : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return failure("cannot allocate ", bytes, " bytes of memory on the CPU; use a smaller batch or model");
  // Only advice: without huge pages everything works, with more misses in the address tables.
  ::madvise(address, bytes, MADV_HUGEPAGE);
  block.start = static_cast<std::byte *>(address);
  block.length = bytes;
  return block;
}

namespace {
Status checkRange(uint64_t offset, uint64_t size, uint64_t bytes, std::string_view what) {
  if (offset > bytes || size > bytes - offset)
    return failure("cannot ", what, " ", size, " bytes at offset ", offset, " of a memory of ", bytes,
                   " bytes");
  return absl::OkStatus();
}
} // namespace

Status CpuMemory::write(uint64_t offset, const void *source, uint64_t size) {
  SLUICE_RETURN_IF_ERROR(checkRange(offset, size, bytes(), "write"));
  if (size)
    std::memcpy(address() + offset, source, size);
  return absl::OkStatus();
}

Status CpuMemory::read(uint64_t offset, void *target, uint64_t size) const {
  SLUICE_RETURN_IF_ERROR(checkRange(offset, size, bytes(), "read"));
  if (size)
    std::memcpy(target, address() + offset, size);
  return absl::OkStatus();
}

} // namespace sluice::cpu
