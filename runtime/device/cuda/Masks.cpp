#include "runtime/device/MaskArguments.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/support/Philox.h"

// Masks, and products under them: weights that a mask drops are zero (masked_adamw and update_mask keep them
// so), so a product runs densely, and of a weight gradient everything at dropped weights is zeroed after the
// product.
namespace sluice::cuda {
namespace {

/// The kernels' parameters (codegen/cuda/library/Masks.cu).
struct MaskUnits {
  uint32_t columns, size, units, group, keep, blockRows, blockColumns;

  explicit MaskUnits(const MaskPattern &pattern)
      : columns(static_cast<uint32_t>(pattern.columns)), size(static_cast<uint32_t>(pattern.size())),
        units(static_cast<uint32_t>(pattern.units())),
        group(static_cast<uint32_t>(pattern.isBlocks() ? pattern.units() : pattern.group)),
        keep(static_cast<uint32_t>(pattern.keep)), blockRows(static_cast<uint32_t>(pattern.blockRows)),
        blockColumns(static_cast<uint32_t>(pattern.blockColumns)) {}
};
struct MaskPlaces {
  std::byte *weight, *average, *square, *age;
};

/// The same command without its last input, the mask, under another kind.
Command withoutMask(const Command &command, const char *kind) {
  Command dense = command;
  dense.kind = kind;
  if (!dense.inputs.empty())
    dense.inputs.pop_back();
  return dense;
}

StatusOr<PreparedKernel> prepareDense(PrepareContext &context, const Command &dense,
                                      PrepareFunction prepare) {
  PrepareContext inner{{dense, context.arenas}, context.device};
  return prepare(inner);
}

/// The mask of the command, its last input, over the weights of input 1 or of the output.
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

void appendApply(PreparedKernel &kernel, const Tensor &y, const Tensor &x, const Tensor &mask) {
  kernel.elements("apply_mask", y.elements).pointer(y).pointer(x).pointer(mask).longInteger(y.elements);
}

StatusOr<PreparedKernel> prepareGradient(PrepareContext &context, const Command &dense, size_t inputs,
                                         PrepareFunction prepare) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, inputs, /*overOutput=*/true));
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel kernel, prepareDense(context, dense, prepare));
  Arguments arguments(context);
  const Tensor gradient = arguments.output(0);
  appendApply(kernel, gradient, gradient, mask);
  return kernel;
}

void appendPack(PreparedKernel &kernel, const Tensor &mask, uint64_t bytes, int64_t weights) {
  kernel.elements("pack_mask", mask.elements)
      .pointer(mask)
      .workspace(bytes)
      .longInteger(weights)
      .longInteger(mask.elements);
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
  appendApply(kernel, y, x, mask);
  return kernel;
}

StatusOr<PreparedKernel> prepareRandomMask(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor seed = arguments.input(0, ElementType::I64), mask = arguments.output(0, ElementType::U8);
  arguments.elements(seed, 1, "the seed");
  const uint64_t stream = streamKey(arguments.text("stream"));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  SLUICE_ASSIGN_OR_RETURN(const MaskShape shape, maskShape(arguments));
  const int64_t weights = shape.matrices * shape.pattern.size();
  arguments.elements(mask, maskBytes(weights), "the mask");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const int64_t words = ceilDivide(weights, 4);
  const uint64_t bytes = kernel.reserve(static_cast<uint64_t>(words) * 4);
  kernel.elements("fill_4", words).workspace(bytes).integer(0).longInteger(words);
  kernel.launch("random_mask", Blocks::each(shape.matrices, 1, "matrices"))
      .workspace(bytes)
      .pointer(seed)
      .value(stream)
      .value(MaskUnits(shape.pattern));
  appendPack(kernel, mask, bytes, weights);
  return kernel;
}

StatusOr<PreparedKernel> prepareUpdateMask(PrepareContext &context) {
  Arguments arguments(context);
  SLUICE_ASSIGN_OR_RETURN(const MaskUpdate update, maskUpdate(arguments));
  const int64_t weights = update.shape.matrices * update.shape.pattern.size();
  PreparedKernel kernel;
  const uint64_t bytes = kernel.reserve(static_cast<uint64_t>(weights));
  kernel.elements("unpack_mask", weights).workspace(bytes).pointer(update.mask).longInteger(weights);
  const Blocks matrices = Blocks::each(update.shape.matrices, 1, "matrices");
  const MaskPlaces places{update.places[0].data, update.places[1].data, update.places[2].data,
                          update.age.data};
  const MaskUnits units(update.shape.pattern);
  auto begin = [&](Launch &launch) -> Launch & { return launch.workspace(bytes).value(places).value(units); };
  // A block a matrix, or a thread a group of an n:m pattern.
  const bool inGroups = update.shape.pattern.isGroups() && !update.shape.pattern.isBlocks();
  const int64_t groups = weights / update.shape.pattern.group;
  auto whole = [&](const char *name) -> Launch & { return begin(kernel.launch(name, matrices)); };
  auto grouped = [&](const char *name) -> Launch & { return begin(kernel.elements(name, groups)); };
  if (update.prunes) {
    Launch &launch = inGroups ? grouped("prune_groups") : whole("prune_mask");
    launch.pointer(update.amount).longInteger(update.targetUnits());
    if (inGroups)
      launch.longInteger(groups);
  } else {
    for (int sign : update.isSigned ? std::vector<int>{-1, 1} : std::vector<int>{0})
      whole("drop_mask")
          .pointer(update.seed)
          .pointer(update.step)
          .pointer(update.amount)
          .value(update.dropStream)
          .integer(update.isSoft)
          .integer(sign);
    Launch &launch = inGroups ? grouped("grow_groups") : whole("grow_mask");
    launch.pointer(update.seed)
        .pointer(update.step)
        .value(update.stream)
        .pointer(update.gradient)
        .real(update.restart);
    if (inGroups)
      launch.longInteger(groups);
  }
  appendPack(kernel, update.mask, bytes, weights);
  return kernel;
}

} // namespace sluice::cuda
