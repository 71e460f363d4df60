#include "runtime/device/Arguments.h"
#include "runtime/device/cpu/DerivedState.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

namespace sluice::cpu {

StatusOr<PreparedKernel> prepareGemm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2, 3);
  arguments.outputs(1);
  const Tensor a = arguments.input(0), b = arguments.input(1), c = arguments.output(0);
  const bool transposeA = arguments.flag("transpose_a"), transposeB = arguments.flag("transpose_b");
  const bool accumulate = arguments.flag("accumulate"), parameterB = arguments.flag("parameter_b");
  arguments.require(a.rank() >= 2 && c.rank() >= 2, "A and C must have at least two dimensions");
  arguments.require(b.rank() >= 2, "B must have two dimensions");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  ProductShape shape{};
  shape.rows = transposeA ? a.dim(-1) : a.rows();
  shape.depth = transposeA ? a.rows() : a.dim(-1);
  // Like A's, B's leading dimensions are folded into its rows (dW = dy^T x with x [B, S, d]).
  shape.columns = transposeB ? b.rows() : b.dim(-1);
  arguments.require((transposeB ? b.dim(-1) : b.rows()) == shape.depth,
                    "A and B must agree in the reduced dimension");
  arguments.require(c.rows() == shape.rows && c.dim(-1) == shape.columns, "C must be [M, N] of op(A) op(B)");
  Tensor bias;
  if (arguments.inputCount() == 3) {
    bias = arguments.input(2);
    arguments.elements(bias, shape.columns, "bias");
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());

  shape.leadingA = a.dim(-1);
  shape.leadingB = b.dim(-1);
  shape.leadingC = c.dim(-1);
  shape.transposeA = transposeA;
  shape.transposeB = transposeB;
  shape.accumulate = accumulate;
  shape.packB = parameterB;
  SLUICE_ASSIGN_OR_RETURN(TiledProduct tiled, TiledProduct::create(shape, context.workers));
  auto product = std::make_shared<const TiledProduct>(std::move(tiled));
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<PackedParameter> packed, context.derived.add(product, b.f32()));

  PreparedKernel kernel;
  kernel.scratchBytes = product->scratchBytes();
  kernel.stages.push_back({product->tiles(), [=](const Tile &tile) {
                             product->run(tile.index, tile.worker, a.f32(), b.f32(),
                                          packed ? packed->data() : nullptr, c.f32(), tile.scratch);
                             if (!bias.data)
                               return;
                             const TiledProduct::Range range = product->range(tile.index);
                             for (int64_t row = range.row; row < range.row + range.rows; ++row)
                               rowAddScaled(bias.f32() + range.column, range.columns, 1.0f,
                                            c.f32() + row * shape.leadingC + range.column);
                           }});
  return kernel;
}

} // namespace sluice::cpu
