// Masked products that skip zeros (SparseCommands.h), or run densely: weights that a mask drops are zero
// (masked_adamw and update_mask keep them so), and of a weight gradient everything at dropped weights is
// zeroed after the product.
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/SparseCommands.h"

namespace sluice::cpu {
namespace {

/// The same command without its last input, the mask, under another kind.
Command withoutMask(const Command &command, const char *kind) {
  Command dense = command;
  dense.kind = kind;
  if (!dense.inputs.empty())
    dense.inputs.pop_back();
  return dense;
}

/// The mask of `command`, its last input, over the weights of `weights`.
StatusOr<Tensor> maskOf(PrepareContext &context, size_t leastInputs, bool overOutput) {
  Arguments arguments(context);
  arguments.inputs(leastInputs, leastInputs + 1);
  arguments.outputs(1);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Tensor weights = overOutput ? arguments.output(0) : arguments.input(1);
  const Tensor mask = maskInput(arguments, arguments.inputCount() - 1, weights.elements);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return mask;
}

StatusOr<PreparedKernel> prepareDense(PrepareContext &context, const Command &dense,
                                      PrepareFunction prepare) {
  PrepareContext inner{{dense, context.arenas}, context.workers, context.derived, context.kernels};
  return prepare(inner);
}

StatusOr<PreparedKernel> prepareGradient(PrepareContext &context, const Command &dense, size_t inputs,
                                         PrepareFunction prepare) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, inputs, /*overOutput=*/true));
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel kernel, prepareDense(context, dense, prepare));
  Arguments arguments(context);
  const Tensor gradient = arguments.output(0);
  kernel.stages.push_back(rangeStage(gradient.elements, 1 << 15, [=](int64_t begin, int64_t end) {
    zeroDropped(mask.as<uint8_t>(), begin, end, gradient.f32());
  }));
  return kernel;
}

/// The masked matrix [out, in] of a command: `transposed` for the product with its transpose, from out to in.
MaskedMatrix matrixOf(const Tensor &mask, int64_t out, int64_t in, int64_t kept, const float *weight,
                      bool transposed) {
  return {transposed ? in : out, transposed ? out : in, kept, mask.as<uint64_t>(), weight, transposed};
}

StatusOr<PreparedKernel> prepareSkipping(PrepareContext &context, const Tensor &mask) {
  Arguments arguments(context);
  const Tensor x = arguments.input(0), w = arguments.input(1), y = arguments.output(0);
  const bool transposed = !arguments.flag("transpose_b"), accumulate = arguments.flag("accumulate");
  arguments.require(w.rank() == 2 && !arguments.flag("transpose_a"), "w must be [out, in], and A as stored");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t kept = arguments.integer("kept", 1, w.elements);
  const MaskedMatrix source = matrixOf(mask, w.dim(0), w.dim(1), kept, w.f32(), transposed);
  arguments.require(x.dim(-1) == source.inputs && y.dim(-1) == source.outputs && x.rows() == y.rows(),
                    "x, w and y must fit together");
  Tensor bias;
  if (arguments.inputCount() == 4) {
    bias = arguments.input(2);
    arguments.elements(bias, source.outputs, "bias");
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel =
      sparseProductKernel(context.derived.addSparse(source), x.rows(), x.f32(), y.f32(), accumulate);
  if (bias.data)
    kernel.stages.push_back(rangeStage(y.rows(), 64, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        rowAddScaled(bias.f32(), bias.elements, 1.0f, y.f32() + row * bias.elements);
    }));
  return kernel;
}

StatusOr<PreparedKernel> prepareSkippingGradient(PrepareContext &context, const Tensor &mask) {
  Arguments arguments(context);
  const Tensor dy = arguments.input(0), x = arguments.input(1), dw = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  arguments.shape(dw, {dy.dim(-1), x.dim(-1)}, "dw");
  arguments.require(dy.rows() == x.rows(), "dy and x must have the same rows");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t kept = arguments.integer("kept", 1, dw.elements);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return sparseWeightGradientKernel(
      context.derived.addSparse(matrixOf(mask, dw.dim(0), dw.dim(1), kept, nullptr, false)), x.rows(),
      x.f32(), dy.f32(), dw.f32(), accumulate);
}

} // namespace

StatusOr<PreparedKernel> prepareMaskedGemm(PrepareContext &context) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 3, /*overOutput=*/false));
  if (context.command.integerOr("skip_zeros", 0) == 1)
    return prepareSkipping(context, mask);
  return prepareDense(context, withoutMask(context.command, "gemm"), prepareGemm);
}

StatusOr<PreparedKernel> prepareMaskedWeightGradient(PrepareContext &context) {
  if (context.command.integerOr("skip_zeros", 0) == 1) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 3, /*overOutput=*/true));
    return prepareSkippingGradient(context, mask);
  }
  Command dense = withoutMask(context.command, "gemm");
  dense.attributes.push_back({"transpose_a", int64_t{1}});
  dense.attributes.push_back({"transpose_b", int64_t{0}});
  return prepareGradient(context, dense, 3, prepareGemm);
}

StatusOr<PreparedKernel> prepareMaskedGroupedGemm(PrepareContext &context) {
  SLUICE_RETURN_IF_ERROR(maskOf(context, 4, /*overOutput=*/false).status());
  return prepareDense(context, withoutMask(context.command, "grouped_gemm"), prepareGroupedGemm);
}

StatusOr<PreparedKernel> prepareMaskedGroupedWeightGradient(PrepareContext &context) {
  return prepareGradient(context, withoutMask(context.command, "grouped_weight_gradient"), 4,
                         prepareGroupedWeightGradient);
}

StatusOr<PreparedKernel> prepareApplyMask(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), y = arguments.output(0);
  const Tensor mask = maskInput(arguments, 1, x.elements);
  arguments.elements(y, x.elements, "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(x.elements, 1 << 15, [=](int64_t begin, int64_t end) {
    if (x.data != y.data)
      std::copy(x.f32() + begin, x.f32() + end, y.f32() + begin);
    zeroDropped(mask.as<uint8_t>(), begin, end, y.f32());
  }));
  return kernel;
}

} // namespace sluice::cpu
