#include "runtime/device/cpu/GroupedProduct.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

namespace sluice::cpu {

StatusOr<PreparedKernel> prepareGroupedGemm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3, 4);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), w = arguments.input(1), buffer = arguments.input(2, ElementType::I32);
  const Tensor y = arguments.output(0);
  const bool transposeW = arguments.flag("transpose_w");
  arguments.require(w.rank() == 3 && w.elements > 0,
                    "w must be [E, out, in] ([E, in, out] with transpose_w) and not empty");
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16), rows = x.rows();
  arguments.require(rows % topK == 0, "the rows must be a multiple of top_k");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t outWidth = transposeW ? w.dim(2) : w.dim(1), inWidth = transposeW ? w.dim(1) : w.dim(2);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, rows / topK, w.dim(0));
  arguments.require(x.dim(-1) == inWidth, "x must be [R, in]");
  arguments.elements(y, rows * outWidth, "the result");
  const Tensor bias = arguments.inputCount() == 4 ? arguments.input(3) : Tensor{};
  if (arguments.inputCount() == 4)
    arguments.elements(bias, w.dim(0) * outWidth, "bias");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  SLUICE_ASSIGN_OR_RETURN(GroupedProduct made,
                          GroupedProduct::create(outWidth, inWidth, !transposeW, false, context.workers));
  auto product = std::make_shared<const GroupedProduct>(std::move(made));
  PreparedKernel kernel;
  kernel.scratchBytes = product->bytesA() + product->bytesC() + product->scratchBytes();
  const int64_t columnTiles = product->columnTiles();
  kernel.stages.push_back(
      {rowTileBound(routing) * columnTiles, [=](const Tile &tile) {
         RowTile part;
         if (!findRowTile(routing, tile.index / columnTiles, part))
           return;
         const int64_t columnTile = tile.index % columnTiles, padded = product->paddedRows(part.count);
         float *scratchA = reinterpret_cast<float *>(tile.scratch);
         float *c = reinterpret_cast<float *>(tile.scratch + product->bytesA());
         const float *a = loadRows(x.f32(), inWidth, part, padded, scratchA);
         product->run(padded, columnTile, tile.worker, a, w.f32() + part.expert * outWidth * inWidth, c,
                      tile.scratch + product->bytesA() + product->bytesC());
         const int64_t column = product->column(columnTile), width = product->width(columnTile);
         for (int64_t i = 0; i < part.count; ++i) {
           float *row = y.f32() + (part.begin + i) * outWidth + column;
           std::copy_n(c + i * product->leadingC(), width, row);
           if (bias.data)
             rowAddScaled(bias.f32() + part.expert * outWidth + column, width, 1.0f, row);
         }
       }});
  return kernel;
}

StatusOr<PreparedKernel> prepareGroupedWeightGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor dy = arguments.input(0), x = arguments.input(1), buffer = arguments.input(2, ElementType::I32);
  const Tensor dw = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16), rows = dy.rows();
  arguments.require(rows % topK == 0, "the rows must be a multiple of top_k");
  arguments.require(x.rows() == rows, "x must have as many rows as dy");
  const RoutingBuffer routing = routingBuffer(arguments, buffer, rows / topK, dw.dim(0));
  arguments.shape(dw, {dw.dim(0), dy.dim(-1), x.dim(-1)}, "dw");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  SLUICE_RETURN_IF_ERROR(addWeightGradient(kernel, routing, {dy.f32(), dy.dim(-1)}, {x.f32(), x.dim(-1)},
                                           dw.f32(), accumulate, context.workers));
  return kernel;
}

StatusOr<PreparedKernel> prepareGroupedSum(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor dy = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               sum = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16), rows = dy.rows(), width = dy.dim(-1);
  arguments.require(rows % topK == 0, "the rows must be a multiple of top_k");
  const RoutingBuffer routing = routingBuffer(arguments, buffer, rows / topK, sum.dim(0));
  arguments.shape(sum, {sum.dim(0), width}, "the sums");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  constexpr int64_t columns = 64;
  const int64_t columnTiles = ceilDivide(width, columns);
  PreparedKernel kernel;
  kernel.stages.push_back(
      {routing.experts * columnTiles, [=](const Tile &tile) {
         const int64_t expert = tile.index / columnTiles, column = tile.index % columnTiles * columns;
         const int64_t part = std::min(columns, width - column);
         float *target = sum.f32() + expert * width + column;
         if (!accumulate)
           std::fill_n(target, part, 0.0f);
         for (int64_t row = routing.offsets()[expert]; row < routing.offsets()[expert + 1]; ++row)
           rowAddScaled(dy.f32() + row * width + column, part, 1.0f, target);
       }});
  return kernel;
}

} // namespace sluice::cpu
