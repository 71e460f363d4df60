// One launch over many tensors: what would be a launch a tensor otherwise, hundreds in a step's update.
#pragma once

#include "runtime/device/cuda/Kernel.h"

namespace sluice::cuda {

/// The kernels' parameter (codegen/cuda/device/TensorList.cuh). A grid's blocks belong to the tensors in
/// their order, each up to its `endBlock`.
template <typename Entry> struct TensorList {
  static constexpr int32_t limit = 64; // all parameters of a kernel together must stay below 4096 bytes
  int32_t size = 0;
  Entry entry[limit] = {};

  int64_t blocks() const { return size > 0 ? entry[size - 1].endBlock : 0; }
  bool isFull() const { return size == limit; }
  /// Adds a tensor that takes so many blocks; `made` has all but endBlock. The list must not be full.
  void add(Entry made, int64_t blockCount) {
    made.endBlock = static_cast<int32_t>(blocks() + blockCount);
    entry[size++] = made;
  }
};

/// For Launch::join of kernels whose first parameter is such a list: appends the tensors of `next` if all
/// other parameters are equal and there is room.
template <typename Entry> bool joinTensorLists(Launch &launch, const Launch &next) {
  using List = TensorList<Entry>;
  if (launch.kernel != next.kernel || launch.threads != next.threads ||
      launch.bytes.size() != next.bytes.size() ||
      !std::equal(launch.bytes.begin() + sizeof(List), launch.bytes.end(), next.bytes.begin() + sizeof(List)))
    return false;
  List list, more;
  std::memcpy(&list, launch.bytes.data(), sizeof list);
  std::memcpy(&more, next.bytes.data(), sizeof more);
  if (list.size + more.size > List::limit || list.blocks() + more.blocks() > INT32_MAX)
    return false;
  for (int32_t i = 0; i < more.size; ++i)
    list.add(more.entry[i], more.entry[i].endBlock - (i > 0 ? more.entry[i - 1].endBlock : 0));
  std::memcpy(launch.bytes.data(), &list, sizeof list);
  launch.grid[0] = static_cast<uint64_t>(list.blocks());
  return true;
}

/// The launches of commands that run one after the other: those of neighbours that can be one are one, at the
/// first of them. `shares[i]` is how many commands the launches of command i stand for, 0 where an earlier
/// one has them.
struct JoinedLaunches {
  std::vector<std::vector<Launch>> launches;
  std::vector<size_t> shares;
};
JoinedLaunches joinNeighbours(std::vector<std::vector<Launch>> commands);

} // namespace sluice::cuda
