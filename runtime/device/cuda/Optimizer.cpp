#include "runtime/device/MaskArguments.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/support/Philox.h"

// AdamW, the global norm, and initial values.
namespace sluice::cuda {
namespace {

/// The kernel's parameter (codegen/cuda/library/Optimizer.cu).
struct AdamSettings {
  double beta1, beta2, epsilon, decay, clip;
};

/// A number in device memory, for the kernel to read.
struct ScalarParameter {
  const std::byte *place;
  int32_t type; // of ElementType
};
struct ScalarParameters {
  ScalarParameter learningRate, step, tokens, norm;
};

} // namespace

namespace {

/// What adamw and masked_adamw have in common.
struct AdamArguments {
  Tensor places[4];
  ScalarParameters scalars;
  AdamSettings settings;

  /// The scalars are inputs `first` .. `first` + 3.
  void read(Arguments &arguments, size_t first) {
    for (size_t i = 0; i < 4; ++i) {
      places[i] = arguments.input(i);
      const Tensor output = arguments.output(i);
      arguments.require(output.data == places[i].data && output.elements == places[i].elements,
                        "w, m, v and gradient are updated in place: outputs must be the first four inputs");
      arguments.require(places[i].elements == places[0].elements, "w, m, v and gradient must have one size");
    }
    for (size_t i = 0; i < 4; ++i) {
      const Tensor scalar = arguments.anyInput(first + i);
      arguments.elements(scalar, 1, "learning_rate, step, tokens and norm");
      arguments.require(scalar.type != ElementType::BF16 && scalar.type != ElementType::U8,
                        "learning_rate, step, tokens and norm must be f32, f64, i32 or i64");
      (i == 0   ? scalars.learningRate
       : i == 1 ? scalars.step
       : i == 2 ? scalars.tokens
                : scalars.norm) = {scalar.data, static_cast<int32_t>(scalar.type)};
    }
    settings = {arguments.number("beta1"), arguments.number("beta2"), arguments.number("epsilon"),
                arguments.number("weight_decay"), arguments.number("clip")};
    arguments.require(settings.beta1 >= 0 && settings.beta1 < 1 && settings.beta2 >= 0 && settings.beta2 < 1,
                      "beta1 and beta2 must lie in [0, 1)");
  }
  /// Four elements a thread: a block computes the step's numbers once.
  Blocks blocks() const { return Blocks::each(places[0].elements, 1024, "elements").atMost(4096); }
};

} // namespace

StatusOr<PreparedKernel> prepareAdamW(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(8);
  arguments.outputs(4);
  AdamArguments adam;
  adam.read(arguments, 4);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  Launch &launch = kernel.launch("adamw", adam.blocks());
  for (const Tensor &place : adam.places)
    launch.pointer(place);
  launch.value(adam.scalars).value(adam.settings).longInteger(adam.places[0].elements);
  return kernel;
}

StatusOr<PreparedKernel> prepareMaskedAdamW(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(9, 10);
  const bool ages = arguments.inputCount() == 10;
  arguments.outputs(ages ? 5 : 4);
  AdamArguments adam;
  adam.read(arguments, 5);
  const Tensor mask = maskInput(arguments, 4, adam.places[0].elements);
  const double ramp = arguments.number("ramp");
  Tensor age;
  if (ages) {
    age = arguments.input(9);
    arguments.elements(age, adam.places[0].elements, "age");
    arguments.require(arguments.output(4).data == age.data, "age is updated in place");
  }
  arguments.require(ramp >= 0 && (ages || ramp == 0), "ramp must not be negative and needs ages");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  Launch &launch = kernel.launch("masked_adamw", adam.blocks());
  for (const Tensor &place : adam.places)
    launch.pointer(place);
  launch.pointer(mask)
      .pointer(age)
      .value(adam.scalars)
      .value(adam.settings)
      .value(ramp)
      .longInteger(adam.places[0].elements);
  return kernel;
}

StatusOr<PreparedKernel> prepareGlobalNorm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.outputs(1);
  const Tensor norm = arguments.output(0);
  arguments.elements(norm, 1, "the norm");
  constexpr int64_t piece = 256 * 32; // what a block of `squares` sums
  std::vector<Tensor> gradients;
  int64_t pieces = 0;
  for (size_t i = 0; i < arguments.inputCount(); ++i) {
    gradients.push_back(arguments.input(i));
    pieces += ceilDivide(gradients.back().elements, piece);
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t parts = kernel.reserve(static_cast<uint64_t>(pieces) * 8);
  uint64_t at = parts;
  for (const Tensor &gradient : gradients) {
    const int64_t count = ceilDivide(gradient.elements, piece);
    kernel.launch("squares", Blocks::each(gradient.elements, piece, "elements"))
        .workspace(at)
        .pointer(gradient)
        .longInteger(gradient.elements);
    at += static_cast<uint64_t>(count) * 8;
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
