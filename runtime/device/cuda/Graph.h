// Work of the device's stream that is recorded once and replayed.
#pragma once

#include "runtime/device/cuda/Context.h"

#include "absl/functional/function_ref.h"

namespace sluice::cuda {

/// A CUDA graph, empty until it is captured.
class Graph {
public:
  /// `name` says in errors what it is ("a training step").
  Graph(std::shared_ptr<Context> context, std::string name)
      : context(std::move(context)), name(std::move(name)), replaying(concat("replaying ", this->name)) {}
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  ~Graph();

  bool isCaptured() const { return executable != nullptr; }
  /// Records what `enqueue` puts into the context's stream, without running it. Errors: those of enqueue; the
  /// driver refuses the capture.
  Status capture(absl::FunctionRef<Status()> enqueue);
  /// Puts the recorded work into the stream.
  Status launch();

private:
  std::shared_ptr<Context> context;
  std::string name, replaying;
  CUgraphExec executable = nullptr;
};

} // namespace sluice::cuda
