#include "runtime/device/MaskArguments.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/MaskBlocks.h"
#include "runtime/support/Philox.h"

// Masks, and products under them. Masks of blocks: over the kept blocks (MaskBlocks.h). Others: weights that
// a mask drops are zero (masked_adamw and update_mask keep them so), so a product runs densely, and of a
// weight gradient everything at dropped weights is zeroed after the product.
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

/// The dense product, then zeros where the mask drops.
StatusOr<PreparedKernel> prepareGradient(PrepareContext &context, const Command &dense, const Tensor &mask,
                                         PrepareFunction prepare) {
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel kernel, prepareDense(context, dense, prepare));
  Arguments arguments(context);
  const Tensor gradient = arguments.output(0);
  appendApply(kernel, gradient, gradient, mask);
  return kernel;
}

/// A routing of rows that all belong to one matrix: without a buffer.
RoutingParameter rowsOfOneMatrix(Arguments &arguments, int64_t rows) {
  arguments.require(rows <= INT32_MAX, "a product under a mask of blocks takes at most 2^31 - 1 rows");
  return {nullptr, static_cast<int32_t>(rows), 1, 1};
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
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 3, /*overOutput=*/false));
  Arguments arguments(context);
  BlockProduct product{
      arguments.output(0), arguments.input(0), arguments.input(1), {}, mask, {}, {}, false, false};
  const std::optional<MaskPattern> blocks = blocksOf(arguments, product.w.dim(0), product.w.dim(1));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (!blocks)
    return prepareDense(context, withoutMask(context.command, "gemm"), prepareGemm);
  product.blocks = *blocks;
  product.transposed = !arguments.flag("transpose_b");
  product.accumulate = arguments.flag("accumulate");
  arguments.flag("parameter_b"); // nothing is packed here
  arguments.require(!arguments.flag("transpose_a"), "A must be as stored");
  arguments.shape(product.w, {blocks->rows, blocks->columns}, "w");
  const int64_t inputs = product.w.dim(product.transposed ? 0 : 1),
                outputs = product.w.dim(product.transposed ? 1 : 0);
  arguments.require(product.x.dim(-1) == inputs && product.y.dim(-1) == outputs &&
                        product.x.rows() == product.y.rows(),
                    "x, w and y must fit together");
  if (arguments.inputCount() == 4) {
    product.bias = arguments.input(2);
    arguments.elements(product.bias, outputs, "bias");
  }
  product.routing = rowsOfOneMatrix(arguments, product.x.rows());
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return product.prepare();
}

StatusOr<PreparedKernel> prepareMaskedWeightGradient(PrepareContext &context) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 3, /*overOutput=*/true));
  Arguments arguments(context);
  BlockWeightGradient product{
      arguments.output(0), arguments.input(0), arguments.input(1), mask, {}, {}, false};
  const std::optional<MaskPattern> blocks = blocksOf(arguments, product.dy.dim(-1), product.x.dim(-1));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (!blocks) {
    Command dense = withoutMask(context.command, "gemm");
    dense.attributes.push_back({"transpose_a", int64_t{1}});
    dense.attributes.push_back({"transpose_b", int64_t{0}});
    return prepareGradient(context, dense, mask, prepareGemm);
  }
  product.blocks = *blocks;
  product.accumulate = arguments.flag("accumulate");
  arguments.shape(product.dw, {blocks->rows, blocks->columns}, "dw");
  arguments.require(product.dy.rows() == product.x.rows(), "dy and x must have the same rows");
  product.routing = rowsOfOneMatrix(arguments, product.x.rows());
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return product.prepare();
}

StatusOr<PreparedKernel> prepareMaskedGroupedGemm(PrepareContext &context) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 4, /*overOutput=*/false));
  Arguments arguments(context);
  BlockProduct product{
      arguments.output(0), arguments.input(0), arguments.input(1), {}, mask, {}, {}, false, false};
  const std::optional<MaskPattern> blocks = blocksOf(arguments, product.w.dim(1), product.w.dim(2));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (!blocks)
    return prepareDense(context, withoutMask(context.command, "grouped_gemm"), prepareGroupedGemm);
  product.blocks = *blocks;
  product.transposed = arguments.flag("transpose_w");
  product.routing = routingOfRows(arguments, arguments.input(2, ElementType::I32), product.x.rows());
  const int64_t inputs = product.transposed ? blocks->rows : blocks->columns,
                outputs = product.transposed ? blocks->columns : blocks->rows;
  arguments.shape(product.w, {product.routing.experts, blocks->rows, blocks->columns}, "w");
  arguments.require(product.x.dim(-1) == inputs, "x and w must fit together");
  arguments.elements(product.y, product.x.rows() * outputs, "the result");
  if (arguments.inputCount() == 5) {
    product.bias = arguments.input(3);
    arguments.elements(product.bias, product.routing.experts * outputs, "bias");
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return product.prepare();
}

StatusOr<PreparedKernel> prepareMaskedGroupedWeightGradient(PrepareContext &context) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 4, /*overOutput=*/true));
  Arguments arguments(context);
  BlockWeightGradient product{
      arguments.output(0), arguments.input(0), arguments.input(1), mask, {}, {}, false};
  const std::optional<MaskPattern> blocks = blocksOf(arguments, product.dy.dim(-1), product.x.dim(-1));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (!blocks)
    return prepareGradient(context, withoutMask(context.command, "grouped_weight_gradient"), mask,
                           prepareGroupedWeightGradient);
  product.blocks = *blocks;
  product.routing = routingOfRows(arguments, arguments.input(2, ElementType::I32), product.x.rows());
  product.accumulate = arguments.flag("accumulate");
  arguments.shape(product.dw, {product.routing.experts, blocks->rows, blocks->columns}, "dw");
  arguments.require(product.dy.rows() == product.x.rows(), "dy and x must have the same rows");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return product.prepare();
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
  const bool inGroups = shape.pattern.isGroups() && !shape.pattern.isBlocks();
  kernel.launch(inGroups ? "random_groups" : "random_mask", Blocks::each(shape.matrices, 1, "matrices"))
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
      whole(update.isSoft ? "drop_mask_softly" : "drop_mask")
          .pointer(update.seed)
          .pointer(update.step)
          .pointer(update.amount)
          .value(update.dropStream)
          .integer(sign);
    Launch &launch = inGroups               ? grouped("grow_groups")
                     : update.gradient.data ? whole("grow_mask_by_gradient")
                                            : whole("grow_mask");
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
