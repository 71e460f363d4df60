// A prepared program: the launches of its commands, as one graph that is captured once and replayed.
#pragma once

#include "runtime/device/cuda/Graph.h"
#include "runtime/device/cuda/Kernel.h"

namespace sluice::cuda {

/// A launch whose function is found and whose parameters lie at their final places.
struct ReadyLaunch {
  CUfunction function;
  unsigned grid[3], threads;
  std::vector<std::byte> bytes;               // of all parameters
  std::vector<size_t> places;                 // where each begins
  std::shared_ptr<const BlasProduct> product; // instead of the kernel, where cuBLASLt computes it
};

class CudaProgram final : public DeviceProgram {
public:
  explicit CudaProgram(std::shared_ptr<Context> context);

  /// Allocates the workspace, as large as the neediest command asks, and completes the launches. Commands run
  /// one after the other on one stream, so they share it. `names` has a name for messages for each command:
  /// "command gemm of 'head'".
  Status complete(std::vector<PreparedKernel> kernels, const std::vector<std::string> &names);

  Status execute() override;
  Status executeCommand(size_t index) override;

  /// Puts all commands into the stream, or into the graph that it captures. Where the context runs commands
  /// alone, waits for each, and an error names it.
  Status enqueue();
  /// Kernels and products that this launches.
  size_t launches() const;

private:
  /// Launches of one command, or of neighbours that share them, and their name for messages.
  struct Step {
    std::string name;
    std::vector<ReadyLaunch> launches;
  };

  Status add(Step &step, Launch launch);
  void chooseProduct(const std::string &name, const DenseProduct &product, ReadyLaunch &ready);
  Status enqueue(const Step &step);

  std::shared_ptr<Context> context;
  std::vector<Step> alone, together; // one a command; what runs when all do
  std::unique_ptr<CudaMemory> workspace, blasWorkspace;
  uint64_t blasBytes = 0;
  std::vector<std::unique_ptr<CudaMemory>> constants;
  Graph graph;
};

} // namespace sluice::cuda
