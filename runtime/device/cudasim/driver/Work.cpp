#include "runtime/device/cudasim/driver/Work.h"

#include <algorithm>

namespace sluice::cudasim {

CUresult WorkList::runUntil(const OperationRef &target) {
  while (!waiting.empty() && !(target && target->done)) {
    std::vector<size_t> runnable;
    for (size_t i = 0; i < waiting.size(); ++i) {
      const auto &after = waiting[i]->after;
      if (std::all_of(after.begin(), after.end(), [](const OperationRef &one) { return one->done; }))
        runnable.push_back(i);
      // The oldest operation waits for nothing that is not older, so one is always found.
      if (natural && !runnable.empty())
        break;
    }
    if (runnable.empty())
      return CUDA_ERROR_LAUNCH_FAILED;
    const size_t chosen = natural ? runnable[0] : runnable[random() % runnable.size()];
    const OperationRef operation = waiting[chosen];
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(chosen));
    const CUresult result = operation->run ? operation->run() : CUDA_SUCCESS;
    operation->done = true;
    // What it waited for is history; long chains would be freed by deep recursion.
    operation->after.clear();
    if (result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

} // namespace sluice::cudasim
