#include "runtime/device/cpu/GroupedProduct.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

// The backward of gated experts. With out[t] = sum_j gate_tj ye[row] and ye = w_down act, act = silu(gate) *
// up: dact = gate_tj w_down^T dout[t], dw_down = sum over rows of gate_tj dout[t] act^T, and so on through
// swiglu.
namespace sluice::cpu {

StatusOr<PreparedKernel> prepareExpertsDownGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(7);
  arguments.outputs(3);
  const Tensor dout = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               gates = arguments.input(2);
  const Tensor wDown = arguments.input(3), gate = arguments.input(4), up = arguments.input(5),
               ye = arguments.input(6);
  const Tensor dgates = arguments.output(0), dgate = arguments.output(1), dup = arguments.output(2);
  const int64_t tokens = dout.rows(), experts = wDown.dim(0), d = wDown.dim(1), f = wDown.dim(2);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.shape(wDown, {experts, d, f}, "w_down");
  arguments.require(dout.dim(-1) == d && f > 0, "dout must be [T, d] and the experts must have a width");
  arguments.elements(gates, routing.rows(), "gates");
  arguments.elements(dgates, routing.rows(), "dgates");
  arguments.elements(ye, routing.rows() * d, "ye");
  for (const Tensor *tensor : {&gate, &up, &dgate, &dup})
    arguments.elements(*tensor, routing.rows() * f, "gate, up and their gradients");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  SLUICE_ASSIGN_OR_RETURN(GroupedProduct made, GroupedProduct::create(f, d, false, false, context.workers));
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
         const float *a = gatherRows(routing, dout.f32(), gates.f32(), d, part, padded, scratchA);
         product->run(padded, columnTile, tile.worker, a, wDown.f32() + part.expert * d * f, c,
                      tile.scratch + product->bytesA() + product->bytesC());
         for (int64_t i = 0; i < part.count; ++i) {
           const int64_t at = (part.begin + i) * f + product->column(columnTile);
           rowSwigluAdjoint(gate.f32() + at, up.f32() + at, c + i * product->leadingC(),
                            product->width(columnTile), dgate.f32() + at, dup.f32() + at);
         }
       }});
  kernel.stages.push_back(gateGradientStage(routing, dout.f32(), ye.f32(), d, dgates.f32()));
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsDownWeightGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(1);
  const Tensor dout = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               gates = arguments.input(2);
  const Tensor act = arguments.input(3), dwDown = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  const int64_t tokens = dout.rows(), d = dout.dim(-1), experts = dwDown.dim(0), f = dwDown.dim(2);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.shape(dwDown, {experts, d, f}, "dw_down");
  arguments.elements(gates, routing.rows(), "gates");
  arguments.elements(act, routing.rows() * f, "act");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  SLUICE_RETURN_IF_ERROR(addWeightGradient(kernel, routing, {dout.f32(), d, true, gates.f32()},
                                           {act.f32(), f}, dwDown.f32(), accumulate, context.workers));
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsUpGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(5);
  arguments.outputs(1);
  const Tensor dgate = arguments.input(0), dup = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor wGate = arguments.input(3), wUp = arguments.input(4), dx = arguments.output(0);
  const int64_t tokens = dx.rows(), experts = wGate.dim(0), f = wGate.dim(1), d = wGate.dim(2);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.shape(wGate, {experts, f, d}, "w_gate");
  arguments.shape(wUp, {experts, f, d}, "w_up");
  arguments.require(dx.dim(-1) == d && d > 0, "dx must be [T, d]");
  arguments.elements(dgate, routing.rows() * f, "dgate");
  arguments.elements(dup, routing.rows() * f, "dup");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  SLUICE_ASSIGN_OR_RETURN(GroupedProduct madeFirst,
                          GroupedProduct::create(d, f, false, false, context.workers));
  SLUICE_ASSIGN_OR_RETURN(GroupedProduct madeSecond,
                          GroupedProduct::create(d, f, false, true, context.workers));
  auto first = std::make_shared<const GroupedProduct>(std::move(madeFirst));
  auto second = std::make_shared<const GroupedProduct>(std::move(madeSecond));
  PreparedKernel kernel;
  kernel.scratchBytes =
      first->bytesA() + first->bytesC() + std::max(first->scratchBytes(), second->scratchBytes());
  kernel.workspaceBytes = floatBytes(routing.rows() * d);
  const int64_t columnTiles = first->columnTiles();
  kernel.stages.push_back(
      {rowTileBound(routing) * columnTiles, [=](const Tile &tile) {
         RowTile part;
         if (!findRowTile(routing, tile.index / columnTiles, part))
           return;
         const int64_t columnTile = tile.index % columnTiles, padded = first->paddedRows(part.count);
         float *scratchA = reinterpret_cast<float *>(tile.scratch);
         float *c = reinterpret_cast<float *>(tile.scratch + first->bytesA());
         std::byte *scratch = tile.scratch + first->bytesA() + first->bytesC();
         first->run(padded, columnTile, tile.worker, loadRows(dgate.f32(), f, part, padded, scratchA),
                    wGate.f32() + part.expert * f * d, c, scratch);
         second->run(padded, columnTile, tile.worker, loadRows(dup.f32(), f, part, padded, scratchA),
                     wUp.f32() + part.expert * f * d, c, scratch);
         float *rows = reinterpret_cast<float *>(tile.workspace);
         for (int64_t i = 0; i < part.count; ++i)
           std::copy_n(c + i * first->leadingC(), first->width(columnTile),
                       rows + (part.begin + i) * d + first->column(columnTile));
       }});
  kernel.stages.push_back({ceilDivide(tokens, 32), [=](const Tile &tile) {
                             const float *rows = reinterpret_cast<const float *>(tile.workspace);
                             combineRange(routing, rows, nullptr, d, dx.f32(), tile.index * 32,
                                          std::min(tokens, (tile.index + 1) * 32));
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsUpWeightGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(2);
  const Tensor x = arguments.input(0), buffer = arguments.input(1, ElementType::I32);
  const Tensor dgate = arguments.input(2), dup = arguments.input(3);
  const Tensor dwGate = arguments.output(0), dwUp = arguments.output(1);
  const bool accumulate = arguments.flag("accumulate");
  const int64_t tokens = x.rows(), d = x.dim(-1), experts = dwGate.dim(0), f = dwGate.dim(1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.shape(dwGate, {experts, f, d}, "dw_gate");
  arguments.shape(dwUp, {experts, f, d}, "dw_up");
  arguments.elements(dgate, routing.rows() * f, "dgate");
  arguments.elements(dup, routing.rows() * f, "dup");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const GradientOperand gathered{x.f32(), d, true};
  SLUICE_RETURN_IF_ERROR(addWeightGradient(kernel, routing, {dgate.f32(), f}, gathered, dwGate.f32(),
                                           accumulate, context.workers));
  SLUICE_RETURN_IF_ERROR(
      addWeightGradient(kernel, routing, {dup.f32(), f}, gathered, dwUp.f32(), accumulate, context.workers));
  return kernel;
}

} // namespace sluice::cpu
