#include "runtime/device/cpu/SparseCommands.h"

#include "runtime/device/cpu/GroupedProduct.h"
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
    kernel.stages.push_back(
        rangeStage(weight->source().keptForm ? most : outputs * inputs, int64_t{1} << 16,
                   [=](int64_t begin, int64_t end) { std::fill(dw + begin, dw + end, 0.0f); }));
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

PreparedKernel sparseGroupedProductKernel(std::vector<std::shared_ptr<const SparseWeight>> weights,
                                          const RoutingBuffer &routing, const float *x, float *y) {
  const SparseMatrix &any = weights.front()->matrix();
  const int64_t panel = sparsePanelTokens(), inputs = any.inputs(), outputs = any.outputs();
  PreparedKernel kernel;
  kernel.scratchBytes = sparseProductScratchBytes(any);
  kernel.stages.push_back({rowTileBound(routing), [=, weights = std::move(weights)](const Tile &tile) {
                             RowTile part;
                             if (!findRowTile(routing, tile.index, part))
                               return;
                             const SparseMatrix &weight = weights[static_cast<size_t>(part.expert)]->matrix();
                             for (int64_t row = part.begin; row < part.begin + part.count; row += panel)
                               sparsePanelProduct(weight, std::min(panel, part.begin + part.count - row),
                                                  x + row * inputs, inputs, y + row * outputs, outputs,
                                                  /*accumulate=*/false, tile.scratch);
                           }});
  return kernel;
}

PreparedKernel sparseGroupedWeightGradientKernel(std::vector<std::shared_ptr<const SparseWeight>> weights,
                                                 const RoutingBuffer &routing, const float *x,
                                                 const float *dy, float *dw, bool accumulate) {
  const SparseMatrix &any = weights.front()->matrix();
  const int64_t inputs = any.inputs(), outputs = any.outputs(), panel = sparsePanelTokens();
  const int64_t most = weights.front()->source().most, experts = routing.experts;
  const int64_t stored = weights.front()->source().keptForm ? most : outputs * inputs;
  // An expert's rows are cut in segments too, so that few experts keep many threads busy.
  const int64_t segments = std::max<int64_t>(1, mostSegments / experts);
  const std::vector<std::shared_ptr<const SparseWeight>> shared = std::move(weights);
  PreparedKernel kernel;
  kernel.scratchBytes = sparseGradientScratchBytes(any);
  kernel.workspaceBytes = floatBytes(experts * segments * most);
  kernel.stages.push_back(
      {experts * segments, [=](const Tile &tile) {
         const int64_t expert = tile.index / segments, segment = tile.index % segments;
         const int64_t begin = routing.offsets()[expert], end = routing.offsets()[expert + 1];
         const int64_t share = ceilDivide(ceilDivide(end - begin, panel), segments) * panel;
         const int64_t first = std::min(begin + segment * share, end);
         sparseWeightGradient(shared[static_cast<size_t>(expert)]->matrix(), std::min(share, end - first),
                              x + first * inputs, inputs, dy + first * outputs, outputs,
                              reinterpret_cast<float *>(tile.workspace) + tile.index * most, tile.scratch);
       }});
  kernel.stages.push_back({experts, [=](const Tile &tile) {
                             const auto *sums = reinterpret_cast<const float *>(tile.workspace) +
                                                tile.index * segments * most;
                             const SparseMatrix &weight = shared[static_cast<size_t>(tile.index)]->matrix();
                             float *target = dw + tile.index * stored;
                             if (!accumulate)
                               std::fill_n(target, stored, 0.0f);
                             for (int64_t entry = 0; entry < weight.kept(); ++entry) {
                               float sum = sums[entry];
                               for (int64_t segment = 1; segment < segments; ++segment)
                                 sum += sums[segment * most + entry];
                               target[weight.places()[entry]] += sum;
                             }
                           }});
  return kernel;
}

PreparedKernel eitherKernel(std::shared_ptr<const SparseWeight> weight, PreparedKernel skipping,
                            PreparedKernel dense) {
  PreparedKernel either;
  either.scratchBytes = std::max(skipping.scratchBytes, dense.scratchBytes);
  either.workspaceBytes = std::max(skipping.workspaceBytes, dense.workspaceBytes);
  auto add = [&](std::vector<Stage> &stages, bool whenFits) {
    for (Stage &stage : stages) {
      auto live = [weight, whenFits, tiles = stage.tiles, count = std::move(stage.liveTiles)]() -> int64_t {
        return weight->fits() != whenFits ? 0 : count ? count() : tiles;
      };
      either.stages.push_back({stage.tiles, std::move(stage.run), std::move(live)});
    }
  };
  add(skipping.stages, true);
  add(dense.stages, false);
  return either;
}

} // namespace sluice::cpu
