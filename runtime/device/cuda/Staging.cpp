#include "runtime/device/cuda/Staging.h"

namespace sluice::cuda {

Status Staging::create(const Driver &driver) {
  void *pinned = nullptr;
  SLUICE_RETURN_IF_ERROR(
      driver.check(driver.hostAllocate(&pinned, 3 * partBytes, 0), "allocating pinned memory"));
  memory = static_cast<std::byte *>(pinned);
  for (CUevent &event : passed)
    SLUICE_RETURN_IF_ERROR(
        driver.check(driver.eventCreate(&event, CU_EVENT_DISABLE_TIMING), "creating a CUDA event"));
  return absl::OkStatus();
}

void Staging::destroy(const Driver &driver) {
  if (memory)
    driver.hostFree(memory);
  for (CUevent event : passed)
    if (event)
      driver.eventDestroy(event);
}

StatusOr<void *> Staging::reserve(const Driver &driver, CUstream stream, uint64_t size) {
  if (used + size > partBytes) {
    SLUICE_RETURN_IF_ERROR(driver.check(driver.eventRecord(passed[half], stream), "recording a CUDA event"));
    half = 1 - half;
    used = 0;
    // An event that was never recorded counts as passed.
    SLUICE_RETURN_IF_ERROR(
        driver.check(driver.eventSynchronize(passed[half]), "waiting for copies to the CUDA device"));
  }
  void *place = memory + static_cast<uint64_t>(half) * partBytes + used;
  used += (size + 63) / 64 * 64;
  return place;
}

} // namespace sluice::cuda
