#include "runtime/device/cuda/TensorList.h"

namespace sluice::cuda {

JoinedLaunches joinNeighbours(std::vector<std::vector<Launch>> commands) {
  JoinedLaunches joined;
  size_t first = 0; // where the launch is that the next may join
  for (std::vector<Launch> &launches : commands) {
    const size_t index = joined.launches.size();
    joined.launches.emplace_back();
    joined.shares.push_back(1);
    if (index > 0 && launches.size() == 1 && joined.launches[first].size() == 1) {
      Launch &before = joined.launches[first].front();
      if (before.join && before.join == launches[0].join && before.join(before, launches[0])) {
        ++joined.shares[first];
        joined.shares.back() = 0;
        continue;
      }
    }
    joined.launches.back() = std::move(launches);
    first = index;
  }
  return joined;
}

} // namespace sluice::cuda
