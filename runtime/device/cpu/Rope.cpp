#include "runtime/device/Rotation.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"

namespace sluice::cpu {

namespace {

/// Turns one head of a token at `position`.
void rotate(const Rotation &rotation, const float *x, int64_t position, float *y) {
  const int64_t half = rotation.half;
  const float *c = rotation.cosine.data() + position * half, *s = rotation.sine.data() + position * half;
  std::copy_n(x, rotation.offset, y);
  const int64_t behind = rotation.offset + 2 * half;
  std::copy(x + behind, x + rotation.headDim, y + behind);
  x += rotation.offset, y += rotation.offset;
  if (!rotation.interleaved)
    return rowRotate(x, c, s, half, rotation.direction, y);
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], turn = rotation.direction * s[i];
    y[2 * i] = a * c[i] - b * turn;
    y[2 * i + 1] = b * c[i] + a * turn;
  }
}

} // namespace

StatusOr<PreparedKernel> prepareRope(PrepareContext &context) {
  Arguments arguments(context);
  auto rotation = std::make_shared<Rotation>(readRotation(arguments));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  rotation->makeTables();
  PreparedKernel kernel;
  kernel.stages.push_back(
      rangeStage(rotation->x.dim(0) * rotation->sequence, 32, [=](int64_t begin, int64_t end) {
        for (int64_t token = begin; token < end; ++token)
          for (int64_t head = 0; head < rotation->heads; ++head) {
            const int64_t at = (token * rotation->heads + head) * rotation->headDim;
            rotate(*rotation, rotation->x.f32() + at, token % rotation->sequence, rotation->y.f32() + at);
          }
      }));
  return kernel;
}

} // namespace sluice::cpu
