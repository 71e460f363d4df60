#include "runtime/device/Arguments.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

#include <cmath>

namespace sluice::cpu {

namespace {

/// The rotary part of every head and its tables.
struct Rotation {
  int64_t headDim, offset, half;
  bool interleaved;
  std::vector<float> cosine, sine; // [sequence, half]

  void run(const float *x, int64_t position, float direction, float *y) const {
    const float *c = cosine.data() + position * half, *s = sine.data() + position * half;
    std::copy_n(x, offset, y);
    std::copy(x + offset + 2 * half, x + headDim, y + offset + 2 * half);
    x += offset, y += offset;
    if (!interleaved)
      return rowRotate(x, c, s, half, direction, y);
    for (int64_t i = 0; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1], turn = direction * s[i];
      y[2 * i] = a * c[i] - b * turn;
      y[2 * i + 1] = b * c[i] + a * turn;
    }
  }
};

} // namespace

// Rotary position embedding (Su et al. 2021): pair i of the token at position s turns by s * frequency(i),
// which is theta^(-2i/rotary_dim) unless a table is given.
StatusOr<PreparedKernel> prepareRope(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), y = arguments.output(0);
  const int64_t heads = arguments.integer("heads", 1, 1 << 20),
                headDim = arguments.integer("head_dim", 2, 1 << 20);
  const int64_t offset = arguments.integerOr("offset", 0),
                rotary = arguments.integerOr("rotary_dim", headDim - offset), half = rotary / 2;
  const double theta = arguments.number("theta"), factor = arguments.numberOr("factor", 1);
  const std::vector<double> frequencies = arguments.numbers("frequencies");
  const float direction = arguments.flag("inverse") ? -1.0f : 1.0f;
  arguments.require(offset >= 0 && rotary >= 2 && rotary <= headDim - offset,
                    "the rotary part must lie inside a head");
  arguments.require(rotary % 2 == 0, "rotary_dim (head_dim if absent) must be even");
  arguments.require(theta > 0, "theta must be positive");
  arguments.require(factor > 0 && std::isfinite(factor), "factor must be positive");
  arguments.require(frequencies.empty() || static_cast<int64_t>(frequencies.size()) == half,
                    "frequencies must hold one number a pair");
  arguments.require(x.rank() == 3 && x.dim(2) == heads * headDim, "x must be [B, S, heads * head_dim]");
  arguments.require(x.shape == y.shape, "input and output must have one shape");
  const bool interleaved = arguments.flag("interleaved");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  const int64_t sequence = x.dim(1), width = heads * headDim;
  auto rotation = std::make_shared<Rotation>(Rotation{headDim, offset, half, interleaved, {}, {}});
  for (int64_t s = 0; s < sequence; ++s)
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = frequencies.empty()
                                   ? std::pow(theta, -static_cast<double>(i) / static_cast<double>(half))
                                   : frequencies[static_cast<size_t>(i)];
      const double angle = static_cast<double>(s) * frequency;
      rotation->cosine.push_back(static_cast<float>(factor * std::cos(angle)));
      rotation->sine.push_back(static_cast<float>(factor * std::sin(angle)));
    }
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(x.dim(0) * sequence, 32, [=](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = token * width + head * headDim;
        rotation->run(x.f32() + at, token % sequence, direction, y.f32() + at);
      }
  }));
  return kernel;
}

} // namespace sluice::cpu
