#include "runtime/device/cuda/Readback.h"

namespace sluice::cuda {

StatusOr<std::unique_ptr<CudaReadback>> CudaReadback::create(std::shared_ptr<Context> context,
                                                             uint64_t bytes) {
  SLUICE_RETURN_IF_ERROR(context->enter());
  const Driver &api = context->api();
  std::unique_ptr<CudaReadback> readback(new CudaReadback(std::move(context), bytes));
  void *pinned = nullptr;
  SLUICE_RETURN_IF_ERROR(
      api.check(api.hostAllocate(&pinned, bytes > 0 ? bytes : 1, 0), "allocating pinned memory"));
  readback->memory = static_cast<std::byte *>(pinned);
  SLUICE_RETURN_IF_ERROR(
      api.check(api.eventCreate(&readback->arrived, CU_EVENT_DISABLE_TIMING), "creating a CUDA event"));
  return readback;
}

CudaReadback::~CudaReadback() {
  if (!context->enter().ok())
    return;
  if (arrived)
    context->api().eventDestroy(arrived);
  if (memory)
    context->api().hostFree(memory);
}

Status CudaReadback::fetch(absl::Span<const ReadbackPart> parts, uint64_t base) {
  SLUICE_RETURN_IF_ERROR(checkReadback(parts, base, length));
  SLUICE_RETURN_IF_ERROR(context->enter());
  const Driver &api = context->api();
  for (const ReadbackPart &part : parts)
    if (part.size > 0)
      SLUICE_RETURN_IF_ERROR(
          api.check(api.copyToHost(memory + base + part.at,
                                   reinterpret_cast<CUdeviceptr>(part.memory->address() + part.offset),
                                   part.size, context->stream),
                    "fetching results from the CUDA device"));
  return api.check(api.eventRecord(arrived, context->stream), "recording a CUDA event");
}

Status CudaReadback::wait() {
  return context->waitFor(arrived);
}

} // namespace sluice::cuda
