// Operands and settings of adamw and masked_adamw, checked alike for every device.
#pragma once

#include "runtime/device/Arguments.h"

namespace sluice {

/// The settings as the CUDA kernel takes them too (codegen/cuda/library/Optimizer.cu).
struct AdamSettings {
  double beta1, beta2, epsilon, decay, clip;
};

struct AdamArguments {
  Tensor places[4];  // w, m, v, gradient, updated in place
  Tensor scalars[4]; // learning_rate, step, tokens, norm: one f32, f64, i32 or i64 each
  AdamSettings settings{};
};

/// `firstScalar`: the input that is the learning rate; the others follow it. What is wrong is in `arguments`.
AdamArguments adamArguments(Arguments &arguments, size_t firstScalar);

/// What masked_adamw has beside it.
struct MaskedAdamArguments {
  AdamArguments adam;
  Tensor mask; // none in kept form, where all elements are kept weights
  Tensor age;  // none where all weights count the run's steps
  double ramp = 0;
  bool keptForm = false;
};
MaskedAdamArguments maskedAdamArguments(Arguments &arguments);

} // namespace sluice
