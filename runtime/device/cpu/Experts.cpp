#include "runtime/device/cpu/GroupedProduct.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

// The forward of gated experts in two kernels: rows are gathered in the load, the activation is an epilogue
// of the up products, and the weighted combine follows the down product.
namespace sluice::cpu {

StatusOr<PreparedKernel> prepareExpertsUp(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(3);
  const Tensor x = arguments.input(0), buffer = arguments.input(1, ElementType::I32);
  const Tensor wGate = arguments.input(2), wUp = arguments.input(3);
  const Tensor gate = arguments.output(0), up = arguments.output(1), act = arguments.output(2);
  const int64_t tokens = x.rows(), d = x.dim(-1), experts = wGate.dim(0), f = wGate.dim(1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.shape(wGate, {experts, f, d}, "w_gate");
  arguments.shape(wUp, {experts, f, d}, "w_up");
  for (const Tensor *tensor : {&gate, &up, &act})
    arguments.elements(*tensor, routing.rows() * f, "gate, up and act");
  arguments.require(f > 0, "the experts must have a width");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  SLUICE_ASSIGN_OR_RETURN(GroupedProduct made, GroupedProduct::create(f, d, true, false, context.workers));
  auto product = std::make_shared<const GroupedProduct>(std::move(made));
  PreparedKernel kernel;
  kernel.scratchBytes = product->bytesA() + 2 * product->bytesC() + product->scratchBytes();
  const int64_t columnTiles = product->columnTiles();
  kernel.stages.push_back(
      {rowTileBound(routing) * columnTiles, [=](const Tile &tile) {
         RowTile part;
         if (!findRowTile(routing, tile.index / columnTiles, part))
           return;
         const int64_t columnTile = tile.index % columnTiles, padded = product->paddedRows(part.count);
         float *scratchA = reinterpret_cast<float *>(tile.scratch);
         float *gateTile = reinterpret_cast<float *>(tile.scratch + product->bytesA());
         float *upTile = reinterpret_cast<float *>(tile.scratch + product->bytesA() + product->bytesC());
         std::byte *scratch = tile.scratch + product->bytesA() + 2 * product->bytesC();
         const float *a = gatherRows(routing, x.f32(), nullptr, d, part, padded, scratchA);
         product->run(padded, columnTile, tile.worker, a, wGate.f32() + part.expert * f * d, gateTile,
                      scratch);
         product->run(padded, columnTile, tile.worker, a, wUp.f32() + part.expert * f * d, upTile, scratch);
         const int64_t column = product->column(columnTile), width = product->width(columnTile);
         for (int64_t i = 0; i < part.count; ++i) {
           const float *gateRow = gateTile + i * product->leadingC(),
                       *upRow = upTile + i * product->leadingC();
           const int64_t at = (part.begin + i) * f + column;
           std::copy_n(gateRow, width, gate.f32() + at);
           std::copy_n(upRow, width, up.f32() + at);
           rowSwiglu(gateRow, upRow, width, act.f32() + at);
         }
       }});
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsDown(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(2);
  const Tensor act = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               gates = arguments.input(2);
  const Tensor wDown = arguments.input(3), ye = arguments.output(0), out = arguments.output(1);
  const int64_t tokens = out.rows(), experts = wDown.dim(0), d = wDown.dim(1), f = wDown.dim(2);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.shape(wDown, {experts, d, f}, "w_down");
  arguments.require(out.dim(-1) == d && d > 0, "out must be [T, d]");
  arguments.elements(act, routing.rows() * f, "act");
  arguments.elements(gates, routing.rows(), "gates");
  arguments.elements(ye, routing.rows() * d, "ye");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  SLUICE_ASSIGN_OR_RETURN(GroupedProduct made, GroupedProduct::create(d, f, true, false, context.workers));
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
         const float *a = loadRows(act.f32(), f, part, padded, scratchA);
         product->run(padded, columnTile, tile.worker, a, wDown.f32() + part.expert * d * f, c,
                      tile.scratch + product->bytesA() + product->bytesC());
         for (int64_t i = 0; i < part.count; ++i)
           std::copy_n(c + i * product->leadingC(), product->width(columnTile),
                       ye.f32() + (part.begin + i) * d + product->column(columnTile));
       }});
  kernel.stages.push_back(combineStage(routing, ye.f32(), gates.f32(), d, out.f32()));
  return kernel;
}

} // namespace sluice::cpu
