#include "passes/PlanOffsets.h"

#include <algorithm>
#include <numeric>

namespace sluice {

int64_t placeBlocks(std::vector<LiveBlock> &blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });
  std::vector<size_t> placed; // by offset
  int64_t size = 0;
  for (size_t index : order) {
    LiveBlock &block = blocks[index];
    if (block.bytes == 0)
      continue;
    int64_t end = 0, best = -1, bestGap = INT64_MAX;
    for (size_t other : placed) {
      const LiveBlock &neighbour = blocks[other];
      if (!neighbour.livesWith(block))
        continue;
      int64_t gap = neighbour.offset - end;
      if (gap >= block.bytes && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, neighbour.offset + neighbour.bytes);
    }
    block.offset = best >= 0 ? best : end;
    size = std::max(size, block.offset + block.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](size_t a, size_t b) { return blocks[a].offset < blocks[b].offset; }),
                  index);
  }
  return size;
}

} // namespace sluice
