#include "runtime/device/LookupArguments.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

#include <cstring>

// Row lookups and their adjoints: embedding and gather share everything but the order of their operands.
namespace sluice::cpu {
namespace {

/// y[i] = table[ids[i]]; an id outside the table gives a zero row and marks the command as damaged.
PreparedKernel lookup(const Tensor &ids, const Tensor &table, const Tensor &y, int64_t width) {
  const int64_t count = table.dim(0);
  constexpr int64_t grain = 64;
  PreparedKernel kernel;
  kernel.stages.push_back({ceilDivide(ids.elements, grain), [=](const Tile &tile) {
                             const int64_t end = std::min(ids.elements, (tile.index + 1) * grain);
                             const size_t rowBytes = static_cast<size_t>(width) * 4;
                             for (int64_t i = tile.index * grain; i < end; ++i) {
                               const int64_t id = ids.i32()[i];
                               if (id >= 0 && id < count) {
                                 std::memcpy(y.f32() + i * width, table.f32() + id * width, rowBytes);
                               } else {
                                 std::memset(y.f32() + i * width, 0, rowBytes);
                                 *tile.damage = true;
                               }
                             }
                           }});
  return kernel;
}

/// dtable[ids[i]] += dy[i] in increasing i. Tiles own columns, so that each sum has one owner and one order.
PreparedKernel scatterAdd(const Tensor &ids, const Tensor &dy, const Tensor &dtable, int64_t width,
                          bool accumulate) {
  const int64_t count = dtable.dim(0);
  PreparedKernel kernel;
  if (!accumulate)
    kernel.stages.push_back(rangeStage(dtable.elements, 1 << 16, [=](int64_t begin, int64_t end) {
      std::memset(dtable.f32() + begin, 0, static_cast<size_t>(end - begin) * 4);
    }));
  constexpr int64_t columns = 32;
  kernel.stages.push_back({ceilDivide(width, columns), [=](const Tile &tile) {
                             const int64_t column = tile.index * columns;
                             const int64_t part = std::min(columns, width - column);
                             for (int64_t i = 0; i < ids.elements; ++i) {
                               const int64_t id = ids.i32()[i];
                               if (id >= 0 && id < count)
                                 rowAddScaled(dy.f32() + i * width + column, part, 1.0f,
                                              dtable.f32() + id * width + column);
                               else
                                 *tile.damage = true;
                             }
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareLookup(PrepareContext &context, size_t idsIndex, size_t tableIndex) {
  Arguments arguments(context);
  const LookupArguments given = lookupArguments(arguments, idsIndex, tableIndex);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return lookup(given.ids, given.table, given.y, given.width);
}

} // namespace

StatusOr<PreparedKernel> prepareEmbedding(PrepareContext &context) {
  return prepareLookup(context, 0, 1);
}

StatusOr<PreparedKernel> prepareGather(PrepareContext &context) {
  return prepareLookup(context, 1, 0);
}

StatusOr<PreparedKernel> prepareEmbeddingGradient(PrepareContext &context) {
  Arguments arguments(context);
  const LookupGradientArguments given = lookupGradientArguments(arguments);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return scatterAdd(given.ids, given.dy, given.dtable, given.width, given.accumulate);
}

StatusOr<PreparedKernel> prepareGatherGradient(PrepareContext &context) {
  return prepareEmbeddingGradient(context);
}

} // namespace sluice::cpu
