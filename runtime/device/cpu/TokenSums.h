// Sums over tokens in double and in fixed order: partial sums of blocks of tokens, then the blocks in order.
#pragma once

#include "runtime/device/cpu/Kernel.h"

#include <memory>

namespace sluice::cpu {

/// Adds two stages to `kernel`: add(token, sums) for every token into `width` sums that start as zero, then
/// finish(sums) with the totals. Reserves `width` doubles a block at the start of the workspace.
template <typename Add, typename Finish>
void sumOverTokens(PreparedKernel &kernel, int64_t tokens, int64_t width, Add add, Finish finish) {
  constexpr int64_t grain = 128;
  const int64_t blocks = ceilDivide(tokens, grain);
  kernel.workspaceBytes =
      std::max(kernel.workspaceBytes, static_cast<uint64_t>((blocks + 1) * width) * sizeof(double));
  kernel.stages.push_back({blocks, [=](const Tile &tile) {
                             double *sums =
                                 reinterpret_cast<double *>(tile.workspace) + (tile.index + 1) * width;
                             std::fill_n(sums, width, 0.0);
                             const int64_t end = std::min(tokens, (tile.index + 1) * grain);
                             for (int64_t token = tile.index * grain; token < end; ++token)
                               add(token, sums);
                           }});
  kernel.stages.push_back({1, [=](const Tile &tile) {
                             double *total = reinterpret_cast<double *>(tile.workspace);
                             std::fill_n(total, width, 0.0);
                             for (int64_t block = 1; block <= blocks; ++block)
                               for (int64_t i = 0; i < width; ++i)
                                 total[i] += total[block * width + i];
                             finish(static_cast<const double *>(total));
                           }});
}

} // namespace sluice::cpu
