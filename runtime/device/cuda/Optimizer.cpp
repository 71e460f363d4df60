#include "runtime/device/AdamArguments.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/TensorList.h"
#include "runtime/support/Philox.h"

// AdamW, the global norm, and initial values.
namespace sluice::cuda {
namespace {

/// A number in device memory, for the kernel to read.
struct ScalarParameter {
  const std::byte *place;
  int32_t type; // of ElementType
};
struct ScalarParameters {
  ScalarParameter learningRate, step, tokens, norm;
};

ScalarParameters scalarsOf(const AdamArguments &adam) {
  const auto parameter = [&](size_t i) {
    return ScalarParameter{adam.scalars[i].data, static_cast<int32_t>(adam.scalars[i].type)};
  };
  return {parameter(0), parameter(1), parameter(2), parameter(3)};
}

/// A tensor of the kernel `adamw`, a gradient of `squares` (codegen/cuda/library/Optimizer.cu).
struct AdamTensor {
  std::byte *w, *m, *v, *gradient;
  int64_t elements;
  double decay;
  int32_t endBlock;
};
struct SquaredTensor {
  const std::byte *gradient;
  int64_t elements;
  int32_t endBlock;
};

} // namespace

StatusOr<PreparedKernel> prepareAdamW(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(8);
  arguments.outputs(4);
  const AdamArguments adam = adamArguments(arguments, 4);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  constexpr int64_t piece = 4096; // a block computes the step's numbers once
  PreparedKernel kernel;
  const int64_t elements = adam.places[0].elements;
  const Blocks blocks = Blocks::each(elements, piece, "elements");
  TensorList<AdamTensor> tensors;
  tensors.add({adam.places[0].data, adam.places[1].data, adam.places[2].data, adam.places[3].data, elements,
               adam.settings.decay, 0},
              static_cast<int64_t>(blocks.count));
  AdamSettings shared = adam.settings;
  shared.decay = 0; // each tensor has its own
  Launch &launch = kernel.launch("adamw", blocks).value(tensors).value(scalarsOf(adam)).value(shared);
  launch.join = joinTensorLists<AdamTensor>;
  return kernel;
}

StatusOr<PreparedKernel> prepareMaskedAdamW(PrepareContext &context) {
  Arguments arguments(context);
  const MaskedAdamArguments masked = maskedAdamArguments(arguments);
  arguments.supported(!masked.keptForm, "the kept form");
  const AdamArguments &adam = masked.adam;
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  // Four elements a thread: a block computes the step's numbers once.
  Launch &launch =
      kernel.launch("masked_adamw", Blocks::each(adam.places[0].elements, 1024, "elements").atMost(4096));
  for (const Tensor &place : adam.places)
    launch.pointer(place);
  launch.pointer(masked.mask)
      .pointer(masked.age)
      .value(scalarsOf(adam))
      .value(adam.settings)
      .value(masked.ramp)
      .longInteger(adam.places[0].elements);
  return kernel;
}

StatusOr<PreparedKernel> prepareGlobalNorm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.outputs(1);
  const Tensor norm = arguments.output(0);
  arguments.elements(norm, 1, "the norm");
  constexpr int64_t piece = 256 * 32; // what a block of `squares` sums
  std::vector<TensorList<SquaredTensor>> lists;
  int64_t pieces = 0;
  for (size_t i = 0; i < arguments.inputCount(); ++i) {
    const Tensor gradient = arguments.input(i);
    const int64_t blocks = ceilDivide(gradient.elements, piece);
    if (lists.empty() || lists.back().isFull())
      lists.emplace_back();
    lists.back().add({gradient.data, gradient.elements, 0}, blocks);
    pieces += blocks;
  }
  arguments.supported(pieces <= INT32_MAX, "gradients must have at most 2^44 elements");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t parts = kernel.reserve(static_cast<uint64_t>(pieces) * 8);
  uint64_t at = parts;
  for (const TensorList<SquaredTensor> &list : lists) {
    kernel.launch("squares", {static_cast<uint64_t>(list.blocks()), "elements/8192"})
        .value(list)
        .workspace(at);
    at += static_cast<uint64_t>(list.blocks()) * 8;
  }
  kernel.launch("global_norm", {}).pointer(norm).workspace(parts).longInteger(pieces);
  return kernel;
}

StatusOr<PreparedKernel> prepareRandomNormal(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor seed = arguments.input(0, ElementType::I64), y = arguments.output(0);
  const uint64_t key = streamKey(arguments.text("stream"));
  const double mean = arguments.number("mean"), deviation = arguments.number("standard_deviation");
  arguments.elements(seed, 1, "the seed");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.elements("random_normal", y.elements)
      .pointer(y)
      .pointer(seed)
      .value(key)
      .value(mean)
      .value(deviation)
      .longInteger(y.elements);
  return kernel;
}

} // namespace sluice::cuda
