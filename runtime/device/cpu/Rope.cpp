#include "runtime/device/cpu/Arguments.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

#include <cmath>

namespace sluice::cpu {

// Rotary position embedding (Su et al. 2021), half-split as in the published Llama code: the pair (i, i +
// h/2) of the token at position s turns by s * theta^(-2i/h).
StatusOr<PreparedKernel> prepareRope(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), y = arguments.output(0);
  const int64_t heads = arguments.integer("heads", 1, 1 << 20),
                headDim = arguments.integer("head_dim", 2, 1 << 20);
  const double theta = arguments.number("theta");
  const float direction = arguments.flag("inverse") ? -1.0f : 1.0f;
  arguments.require(headDim % 2 == 0, "head_dim must be even");
  arguments.require(theta > 0, "theta must be positive");
  arguments.require(x.rank() == 3 && x.dim(2) == heads * headDim, "x must be [B, S, heads * head_dim]");
  arguments.require(x.shape == y.shape, "input and output must have one shape");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  const int64_t sequence = x.dim(1), half = headDim / 2, width = heads * headDim;
  auto table = std::make_shared<std::vector<float>>(static_cast<size_t>(2 * sequence * half));
  for (int64_t s = 0; s < sequence; ++s)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(s) *
                           std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(headDim));
      (*table)[static_cast<size_t>(s * half + i)] = static_cast<float>(std::cos(angle));
      (*table)[static_cast<size_t>((sequence + s) * half + i)] = static_cast<float>(std::sin(angle));
    }
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(x.dim(0) * sequence, 32, [=](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float *cosine = table->data() + token % sequence * half, *sine = cosine + sequence * half;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = token * width + head * headDim;
        rowRotate(x.f32() + at, cosine, sine, half, direction, y.f32() + at);
      }
    }
  }));
  return kernel;
}

} // namespace sluice::cpu
