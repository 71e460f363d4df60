#include "runtime/device/cuda/Sequence.h"

#include "runtime/device/cuda/Program.h"

namespace sluice::cuda {

StatusOr<std::unique_ptr<CudaSequence>> CudaSequence::create(std::shared_ptr<Context> context,
                                                             std::string name,
                                                             absl::Span<const SequenceStep> steps,
                                                             uint64_t roomBytes) {
  SLUICE_RETURN_IF_ERROR(checkSequence(steps, roomBytes));
  SLUICE_RETURN_IF_ERROR(context->enter());
  const Driver &api = context->api();
  std::unique_ptr<CudaSequence> sequence(new CudaSequence(std::move(context), std::move(name), steps));
  const size_t size = roomBytes > 0 ? static_cast<size_t>(roomBytes) : 1;
  void *pinned = nullptr;
  SLUICE_RETURN_IF_ERROR(api.check(api.hostAllocate(&pinned, size, 0), "allocating pinned memory"));
  sequence->memory = static_cast<std::byte *>(pinned);
  std::memset(sequence->memory, 0, size);
  SLUICE_RETURN_IF_ERROR(
      api.check(api.eventCreate(&sequence->finished, CU_EVENT_DISABLE_TIMING), "creating a CUDA event"));
  if (!sequence->context->runsCommandsAlone() && sequence->nodes() <= maximumNodes)
    SLUICE_RETURN_IF_ERROR(sequence->graph.capture([&] { return sequence->enqueue(/*isRecording=*/true); }));
  return sequence;
}

CudaSequence::~CudaSequence() {
  if (!context->enter().ok())
    return;
  if (finished)
    context->api().eventDestroy(finished);
  if (memory)
    context->api().hostFree(memory);
}

size_t CudaSequence::nodes() const {
  size_t count = 1; // the copy of the damage flag
  for (const SequenceStep &step : steps)
    count += step.kind == SequenceStep::Kind::Run ? static_cast<CudaProgram *>(step.program)->launches() : 1;
  return count;
}

Status CudaSequence::enqueue(bool isRecording) {
  const Driver &api = context->api();
  for (const SequenceStep &step : steps) {
    if (step.kind == SequenceStep::Kind::Run) {
      auto *program = static_cast<CudaProgram *>(step.program);
      SLUICE_RETURN_IF_ERROR(isRecording ? program->enqueue() : program->execute());
      continue;
    }
    if (step.size == 0)
      continue;
    const auto place = reinterpret_cast<CUdeviceptr>(step.memory->address() + step.offset);
    const CUresult result = step.kind == SequenceStep::Kind::CopyIn
                                ? api.copyToDevice(place, memory + step.at, step.size, context->stream)
                                : api.copyToHost(memory + step.at, place, step.size, context->stream);
    SLUICE_RETURN_IF_ERROR(api.check(result, "copying between host and CUDA device"));
  }
  return context->enqueueDamageCopy();
}

Status CudaSequence::run() {
  SLUICE_RETURN_IF_ERROR(context->enter());
  SLUICE_RETURN_IF_ERROR(graph.isCaptured() ? graph.launch() : enqueue(/*isRecording=*/false));
  context->setLast(running, /*isCommand=*/false);
  const Driver &api = context->api();
  return api.check(api.eventRecord(finished, context->stream), "recording a CUDA event");
}

} // namespace sluice::cuda
