// Masked products that skip zeros (SparseCommands.h), or run densely: weights that a mask drops are zero
// (masked_adamw and update_mask keep them so), and of a weight gradient everything at dropped weights is
// zeroed after the product.
#include "runtime/device/MaskPattern.h"
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

/// The matrices [out, in] of a masked weight: one, or one an expert.
struct Matrices {
  int64_t count = 0, out = 0, in = 0;
  bool keptForm = false; // the weight holds its kept values alone, matrix by matrix

  int64_t weights() const { return count * out * in; }
};

/// The matrices that a weight in kept form stands for, from the attribute `shape` ("[experts,]out,in"); none
/// where the weight is whole.
Matrices keptShape(Arguments &arguments) {
  const std::vector<double> shape = arguments.numbers("shape");
  constexpr double most = 1 << 30;
  double weights = 1;
  bool fits = shape.size() == 2 || shape.size() == 3;
  for (double side : shape) {
    fits = fits && side >= 1;
    weights *= side;
  }
  fits = fits && weights <= most;
  arguments.require(shape.empty() || fits, "shape must be [experts,] out, in of at most 2^30 weights");
  if (!fits)
    return {};
  const auto side = [&](size_t fromEnd) { return static_cast<int64_t>(shape[shape.size() - fromEnd]); };
  return {shape.size() == 3 ? side(3) : 1, side(2), side(1), true};
}

/// The mask of `command`, its last input, over its weights.
StatusOr<Tensor> maskOf(PrepareContext &context, size_t leastInputs, bool overOutput) {
  Arguments arguments(context);
  arguments.inputs(leastInputs, leastInputs + 1);
  arguments.outputs(1);
  const Matrices kept = keptShape(arguments);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Tensor weights = overOutput ? arguments.output(0) : arguments.input(1);
  const Tensor mask =
      maskInput(arguments, arguments.inputCount() - 1, kept.keptForm ? kept.weights() : weights.elements);
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

/// Which kernels a masked product carries: the one that skips zeros runs while a matrix keeps at most `skip`
/// weights, the dense one above; the mask never keeps more than `most`.
struct Forms {
  int64_t skip, most;
  int64_t blockRows, blockColumns; // sides of the blocks that the mask keeps; 1 where it keeps single weights
  bool never() const { return skip == 0; }
  bool always() const { return most <= skip; }
};

/// Of the masked matrix [out, in].
Forms formsOf(Arguments &arguments, const Matrices &matrices) {
  const int64_t out = matrices.out, in = matrices.in;
  const int64_t most = arguments.integer("kept", 1, out * in),
                skip = arguments.integer("skip_at_most", 0, out * in);
  const std::string name = arguments.textOr("pattern", "unstructured");
  const std::optional<MaskPattern> pattern =
      arguments.ok() ? MaskPattern::read(name, out, in, most) : std::nullopt;
  arguments.require(pattern.has_value(), "pattern must fit the matrix and the kept weights");
  return pattern ? Forms{skip, most, pattern->blockRows, pattern->blockColumns} : Forms{skip, most, 1, 1};
}

/// The matrix of a command whose mask starts at bit `first`: `transposed` for the product
/// with its transpose, from out to in.
MaskedMatrix matrixOf(const Tensor &mask, int64_t first, const Matrices &matrices, const Forms &forms,
                      const float *weight, bool transposed) {
  const int64_t out = matrices.out, in = matrices.in;
  return {.outputs = transposed ? in : out,
          .inputs = transposed ? out : in,
          .most = std::min(forms.skip, forms.most),
          .mask = mask.as<uint64_t>(),
          .first = first,
          .weight = weight,
          .transposed = transposed,
          .keptForm = matrices.keptForm,
          .height = SparseMatrix::heightFor(transposed ? forms.blockColumns : forms.blockRows)};
}

/// One masked matrix an expert; `weight` may be null.
std::vector<std::shared_ptr<const SparseWeight>> expertWeights(PrepareContext &context, const Tensor &mask,
                                                               const Matrices &matrices, const Forms &forms,
                                                               const float *weight, bool transposed) {
  std::vector<std::shared_ptr<const SparseWeight>> weights;
  weights.reserve(static_cast<size_t>(matrices.count));
  const int64_t size = matrices.out * matrices.in, stored = matrices.keptForm ? forms.most : size;
  for (int64_t expert = 0; expert < matrices.count; ++expert)
    weights.push_back(context.derived.addSparse(matrixOf(
        mask, expert * size, matrices, forms, weight ? weight + expert * stored : nullptr, transposed)));
  return weights;
}

/// Checks that a tensor in kept form has the size that `forms` says, and that its command reads it so.
void checkKeptForm(Arguments &arguments, const Matrices &matrices, const Forms &forms, const Tensor &kept) {
  if (!matrices.keptForm)
    return;
  arguments.elements(kept, matrices.count * forms.most, "a tensor in kept form");
  arguments.require(forms.always(), "only kernels that skip zeros know the kept form");
}

/// Adds the bias to every row of y.
void addBias(PreparedKernel &kernel, const Tensor &bias, const Tensor &y) {
  if (bias.data)
    kernel.stages.push_back(rangeStage(y.rows(), 64, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        rowAddScaled(bias.f32(), bias.elements, 1.0f, y.f32() + row * bias.elements);
    }));
}

} // namespace

StatusOr<PreparedKernel> prepareMaskedGemm(PrepareContext &context) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 3, /*overOutput=*/false));
  const Command dense = withoutMask(context.command, "gemm");
  Arguments arguments(context);
  const Tensor x = arguments.input(0), w = arguments.input(1), y = arguments.output(0);
  const bool transposed = !arguments.flag("transpose_b"), accumulate = arguments.flag("accumulate");
  Matrices matrices = keptShape(arguments);
  if (!matrices.keptForm) {
    arguments.require(w.rank() == 2 && w.elements > 0, "w must be [out, in] and not empty");
    matrices = {1, w.dim(0), w.dim(1)};
  }
  arguments.require(matrices.count == 1, "w must be one matrix");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Forms forms = formsOf(arguments, matrices);
  checkKeptForm(arguments, matrices, forms, w);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (forms.never())
    return prepareDense(context, dense, prepareGemm);
  arguments.require(!arguments.flag("transpose_a"), "A must be as stored");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const MaskedMatrix source = matrixOf(mask, 0, matrices, forms, w.f32(), transposed);
  arguments.require(x.dim(-1) == source.inputs && y.dim(-1) == source.outputs && x.rows() == y.rows(),
                    "x, w and y must fit together");
  Tensor bias;
  if (arguments.inputCount() == 4) {
    bias = arguments.input(2);
    arguments.elements(bias, source.outputs, "bias");
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  std::shared_ptr<const SparseWeight> weight = context.derived.addSparse(source);
  PreparedKernel skipping = sparseProductKernel(weight, x.rows(), x.f32(), y.f32(), accumulate);
  addBias(skipping, bias, y);
  if (forms.always())
    return skipping;
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel other, prepareDense(context, dense, prepareGemm));
  return eitherKernel(std::move(weight), std::move(skipping), std::move(other));
}

StatusOr<PreparedKernel> prepareMaskedWeightGradient(PrepareContext &context) {
  Command dense = withoutMask(context.command, "gemm");
  dense.attributes.push_back({"transpose_a", int64_t{1}});
  dense.attributes.push_back({"transpose_b", int64_t{0}});
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 3, /*overOutput=*/true));
  Arguments arguments(context);
  const Tensor dy = arguments.input(0), x = arguments.input(1), dw = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  Matrices matrices = keptShape(arguments);
  if (!matrices.keptForm) {
    matrices = {1, dy.dim(-1), x.dim(-1)};
    arguments.shape(dw, {matrices.out, matrices.in}, "dw");
    arguments.require(dw.elements > 0, "dw must not be empty");
  }
  arguments.require(matrices.count == 1, "dw must be one matrix");
  arguments.require(dy.dim(-1) == matrices.out && x.dim(-1) == matrices.in,
                    "dy and x must have the columns of shape");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Forms forms = formsOf(arguments, matrices);
  checkKeptForm(arguments, matrices, forms, dw);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (forms.never())
    return prepareGradient(context, dense, 3, prepareGemm);
  arguments.require(dy.rows() == x.rows(), "dy and x must have the same rows");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const MaskedMatrix source = matrixOf(mask, 0, matrices, forms, nullptr, false);
  std::shared_ptr<const SparseWeight> weight = context.derived.addSparse(source);
  PreparedKernel skipping =
      sparseWeightGradientKernel(weight, x.rows(), x.f32(), dy.f32(), dw.f32(), accumulate);
  if (forms.always())
    return skipping;
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel other, prepareGradient(context, dense, 3, prepareGemm));
  return eitherKernel(std::move(weight), std::move(skipping), std::move(other));
}

StatusOr<PreparedKernel> prepareMaskedGroupedGemm(PrepareContext &context) {
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 4, /*overOutput=*/false));
  const Command dense = withoutMask(context.command, "grouped_gemm");
  Arguments arguments(context);
  const Tensor x = arguments.input(0), w = arguments.input(1), buffer = arguments.input(2, ElementType::I32),
               y = arguments.output(0);
  Matrices matrices = keptShape(arguments);
  if (!matrices.keptForm) {
    arguments.require(w.rank() == 3 && w.elements > 0, "w must be [E, out, in] and not empty");
    matrices = {w.dim(0), w.dim(1), w.dim(2)};
  }
  const bool transposed = arguments.flag("transpose_w");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t experts = matrices.count, out = matrices.out, in = matrices.in;
  const Forms forms = formsOf(arguments, matrices);
  checkKeptForm(arguments, matrices, forms, w);
  arguments.require(!matrices.keptForm || arguments.inputCount() == 4,
                    "a bias of each expert needs whole weights");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  // A bias of its own for each expert: only the dense kernel adds it.
  if (forms.never() || arguments.inputCount() == 5)
    return prepareDense(context, dense, prepareGroupedGemm);
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16), rows = x.rows();
  arguments.require(rows % topK == 0, "the rows must be a multiple of top_k");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const RoutingBuffer routing = routingBuffer(arguments, buffer, rows / topK, experts);
  arguments.require(x.dim(-1) == (transposed ? out : in), "x must be [R, in]");
  arguments.elements(y, rows * (transposed ? in : out), "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  auto weights = expertWeights(context, mask, matrices, forms, w.f32(), transposed);
  std::shared_ptr<const SparseWeight> any = weights.front();
  PreparedKernel skipping = sparseGroupedProductKernel(std::move(weights), routing, x.f32(), y.f32());
  if (forms.always())
    return skipping;
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel other, prepareDense(context, dense, prepareGroupedGemm));
  return eitherKernel(std::move(any), std::move(skipping), std::move(other));
}

StatusOr<PreparedKernel> prepareMaskedGroupedWeightGradient(PrepareContext &context) {
  const Command dense = withoutMask(context.command, "grouped_weight_gradient");
  SLUICE_ASSIGN_OR_RETURN(const Tensor mask, maskOf(context, 4, /*overOutput=*/true));
  Arguments arguments(context);
  const Tensor dy = arguments.input(0), x = arguments.input(1), buffer = arguments.input(2, ElementType::I32),
               dw = arguments.output(0);
  Matrices matrices = keptShape(arguments);
  if (!matrices.keptForm) {
    arguments.require(dw.rank() == 3 && dw.elements > 0, "dw must be [E, out, in] and not empty");
    matrices = {dw.dim(0), dw.dim(1), dw.dim(2)};
  }
  arguments.require(dy.dim(-1) == matrices.out && x.dim(-1) == matrices.in,
                    "dy must be [R, out] and x [R, in]");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Forms forms = formsOf(arguments, matrices);
  checkKeptForm(arguments, matrices, forms, dw);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  if (forms.never())
    return prepareGradient(context, dense, 4, prepareGroupedWeightGradient);
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16), rows = dy.rows();
  arguments.require(rows % topK == 0 && x.rows() == rows, "dy and x must have the routed rows");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const RoutingBuffer routing = routingBuffer(arguments, buffer, rows / topK, matrices.count);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  auto weights = expertWeights(context, mask, matrices, forms, nullptr, /*transposed=*/false);
  std::shared_ptr<const SparseWeight> any = weights.front();
  PreparedKernel skipping = sparseGroupedWeightGradientKernel(std::move(weights), routing, x.f32(), dy.f32(),
                                                              dw.f32(), arguments.flag("accumulate"));
  if (forms.always())
    return skipping;
  SLUICE_ASSIGN_OR_RETURN(PreparedKernel other,
                          prepareGradient(context, dense, 4, prepareGroupedWeightGradient));
  return eitherKernel(std::move(any), std::move(skipping), std::move(other));
}

StatusOr<PreparedKernel> prepareApplyMask(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), y = arguments.output(0);
  const Tensor mask = maskInput(arguments, 1, x.elements);
  const bool keptOnly = arguments.flag("kept_only");
  arguments.require(keptOnly ? y.elements <= x.elements : y.elements == x.elements,
                    "the result must have the operand's size, or that of its kept form");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  if (keptOnly) {
    // One tile: where a value goes depends on the mask before it. A mask from outside must not reach further.
    kernel.stages.push_back({1, [=](const Tile &) {
                               float *target = y.f32(), *end = target + y.elements;
                               forEachKept(mask.as<uint8_t>(), 0, x.elements, [&](int64_t i) {
                                 if (target < end)
                                   *target++ = x.f32()[i];
                               });
                               std::fill(target, end, 0.0f);
                             }});
    return kernel;
  }
  kernel.stages.push_back(rangeStage(x.elements, 1 << 15, [=](int64_t begin, int64_t end) {
    if (x.data != y.data)
      std::copy(x.f32() + begin, x.f32() + end, y.f32() + begin);
    zeroDropped(mask.as<uint8_t>(), begin, end, y.f32());
  }));
  return kernel;
}

} // namespace sluice::cpu
