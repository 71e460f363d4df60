// Copies and programs as one CUDA graph.
#pragma once

#include "runtime/device/Sequence.h"
#include "runtime/device/cuda/Graph.h"

namespace sluice::cuda {

/// The room is pinned, so that the copies of the graph read and write it whenever they run; an event behind
/// each run says that it has ended.
class CudaSequence final : public DeviceSequence {
public:
  /// Records the steps. Errors (failure): no pinned memory; the driver refuses the capture.
  static StatusOr<std::unique_ptr<CudaSequence>> create(std::shared_ptr<Context> context, std::string name,
                                                        absl::Span<const SequenceStep> steps,
                                                        uint64_t roomBytes);
  ~CudaSequence() override;
  std::byte *room() override { return memory; }
  Status run() override;
  Status wait() override { return context->waitFor(finished); }

private:
  CudaSequence(std::shared_ptr<Context> context, std::string name, absl::Span<const SequenceStep> steps)
      : context(std::move(context)), name(std::move(name)), running(concat("running ", this->name)),
        steps(steps.begin(), steps.end()), graph(this->context, this->name) {}
  Status enqueue();

  std::shared_ptr<Context> context;
  std::string name, running;
  std::vector<SequenceStep> steps;
  std::byte *memory = nullptr;
  CUevent finished = nullptr;
  Graph graph;
};

} // namespace sluice::cuda
