// Masked products run densely: weights that a mask drops are zero (masked_adamw and update_mask keep them
// so), and of a weight gradient everything at dropped weights is zeroed after the product.
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"

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

} // namespace

StatusOr<PreparedKernel> prepareMaskedGemm(PrepareContext &context) {
  SLUICE_RETURN_IF_ERROR(maskOf(context, 3, /*overOutput=*/false).status());
  return prepareDense(context, withoutMask(context.command, "gemm"), prepareGemm);
}

StatusOr<PreparedKernel> prepareMaskedWeightGradient(PrepareContext &context) {
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
