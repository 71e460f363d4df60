// Work that waits in streams: operations with dependencies, run late and in a seeded order, so that a program
// which forgets an event gives wrong results here and not only on a busy GPU.
#pragma once

#include "runtime/abi/CudaDriver.h"

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace sluice::cudasim {

/// One operation of a stream, or one node of a graph.
struct Operation {
  std::function<CUresult()> run; // empty: it only orders others
  std::vector<std::shared_ptr<Operation>> after;
  bool done = false;
};
using OperationRef = std::shared_ptr<Operation>;

/// The operations that were given and have not run.
class WorkList {
public:
  void seed(uint64_t value) {
    random.seed(value);
    natural = value == 0;
  }
  void add(OperationRef operation) { waiting.push_back(std::move(operation)); }
  /// Runs operations until `target` is done (null: all are). Which of the runnable ones goes next is random.
  /// The first error ends it.
  CUresult runUntil(const OperationRef &target);
  void clear() { waiting.clear(); }

private:
  bool natural = true; // oldest first
  std::mt19937_64 random;
  std::deque<OperationRef> waiting; // the oldest, which most often is next, leaves the front
};

} // namespace sluice::cudasim
