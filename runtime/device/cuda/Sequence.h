// Copies and programs as one CUDA graph, or as one a program where that graph would be very large.
#pragma once

#include "runtime/device/Sequence.h"
#include "runtime/device/cuda/Graph.h"

namespace sluice::cuda {

/// The room is pinned, so that the copies of the graph read and write it whenever they run; an event behind
/// each run says that it has ended.
class CudaSequence final : public DeviceSequence {
public:
  /// Nodes of a graph beyond which a sequence is no graph: instantiated nodes take memory of host and device,
  /// of the order of a kilobyte each (not measured), and a step of hundreds of micro-batches holds the same
  /// commands as often. Copies and the programs' own graphs then go into the stream one after the other.
  static constexpr size_t maximumNodes = 65536;

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
  size_t nodes() const;
  /// Puts the steps into the stream, programs as their launches if it records them, else as they execute.
  Status enqueue(bool isRecording);

  std::shared_ptr<Context> context;
  std::string name, running;
  std::vector<SequenceStep> steps;
  std::byte *memory = nullptr;
  CUevent finished = nullptr;
  Graph graph;
};

} // namespace sluice::cuda
