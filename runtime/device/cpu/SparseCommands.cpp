#include "runtime/device/cpu/SparseCommands.h"

#include "runtime/device/cpu/SparseProduct.h"

namespace sluice::cpu {
namespace {

/// Segments of tokens in a weight gradient, and the fewest panels of one: more segments are more threads, and
/// more sums to add.
constexpr int64_t mostSegments = 16, leastPanels = 2;

} // namespace

PreparedKernel sparseProductKernel(std::shared_ptr<const SparseWeight> weight, int64_t tokens, const float *x,
                                   float *y, bool accumulate) {
  const SparseMatrix &matrix = weight->matrix();
  const int64_t panel = sparsePanelTokens(), inputs = matrix.inputs(), outputs = matrix.outputs();
  PreparedKernel kernel;
  kernel.scratchBytes = sparseProductScratchBytes(matrix);
  kernel.stages.push_back({ceilDivide(tokens, panel), [=](const Tile &tile) {
                             const int64_t first = tile.index * panel;
                             sparsePanelProduct(weight->matrix(), std::min(panel, tokens - first),
                                                x + first * inputs, inputs, y + first * outputs, outputs,
                                                accumulate, tile.scratch);
                           }});
  return kernel;
}

PreparedKernel sparseWeightGradientKernel(std::shared_ptr<const SparseWeight> weight, int64_t tokens,
                                          const float *x, const float *dy, float *dw, bool accumulate) {
  const SparseMatrix &matrix = weight->matrix();
  const int64_t inputs = matrix.inputs(), outputs = matrix.outputs(), most = weight->source().most;
  const int64_t panels = ceilDivide(tokens, sparsePanelTokens());
  const int64_t segments = std::clamp<int64_t>(panels / leastPanels, 1, mostSegments);
  const int64_t share = ceilDivide(panels, segments) * sparsePanelTokens();
  PreparedKernel kernel;
  kernel.scratchBytes = sparseGradientScratchBytes(matrix);
  kernel.workspaceBytes = floatBytes(segments * most);
  kernel.stages.push_back({segments, [=](const Tile &tile) {
                             const int64_t first = std::min(tile.index * share, tokens);
                             sparseWeightGradient(
                                 weight->matrix(), std::min(share, tokens - first), x + first * inputs,
                                 inputs, dy + first * outputs, outputs,
                                 reinterpret_cast<float *>(tile.workspace) + tile.index * most, tile.scratch);
                           }});
  if (!accumulate)
    kernel.stages.push_back(rangeStage(outputs * inputs, int64_t{1} << 16, [=](int64_t begin, int64_t end) {
      std::fill(dw + begin, dw + end, 0.0f);
    }));
  constexpr int64_t grain = int64_t{1} << 14;
  kernel.stages.push_back({0,
                           [=](const Tile &tile) {
                             const auto *sums = reinterpret_cast<const float *>(tile.workspace);
                             const uint32_t *places = weight->matrix().places();
                             const int64_t end = std::min(weight->matrix().kept(), (tile.index + 1) * grain);
                             for (int64_t entry = tile.index * grain; entry < end; ++entry) {
                               float sum = sums[entry];
                               for (int64_t segment = 1; segment < segments; ++segment)
                                 sum += sums[segment * most + entry];
                               dw[places[entry]] += sum;
                             }
                           },
                           [=] { return ceilDivide(weight->matrix().kept(), grain); }});
  return kernel;
}

} // namespace sluice::cpu
