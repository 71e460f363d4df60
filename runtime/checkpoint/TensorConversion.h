// A tensor of any common element type as float32, float64 or int32 values of the host.
#pragma once

#include "runtime/checkpoint/Safetensors.h"

#include <cstdint>
#include <vector>

namespace sluice {

enum class Conversion {
  Rounded, // to the nearest value, ties to even; beyond the range becomes infinity
  Exact,   // a value that the target type cannot hold is an error
};

/// The tensor's values in row-major order. Read are F64, F32, BF16, F16, I32 and I64; another type is an
/// error that names the tensor. NaN stays NaN and is always exact.
StatusOr<std::vector<float>> toFloat32(const TensorView &tensor, Conversion conversion = Conversion::Rounded);
StatusOr<std::vector<double>> toFloat64(const TensorView &tensor,
                                        Conversion conversion = Conversion::Rounded);
/// Whole numbers only, always exact: a fraction, NaN or a value beyond 32 bits is an error that states the
/// element.
StatusOr<std::vector<int32_t>> toInt32(const TensorView &tensor);

/// As toFloat32, into `destination`, which holds tensor.elements() values.
Status readFloat32(const TensorView &tensor, float *destination, Conversion conversion = Conversion::Rounded);

} // namespace sluice
