#include "runtime/device/AdamArguments.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"
#include "runtime/device/cpu/RowMath.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/device/cpu/Optimizer.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// AdamW (Loshchilov and Hutter 2019) as PyTorch computes it. With the gradient g summed over `tokens` tokens
// and n the norm of all sums: g <- g / tokens, times min(1, clip / (n / tokens + 1e-6)) when clip > 0;
//   m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
//   w <- w - lr decay w,  w <- w - lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon).
// A norm that is not finite, or no token, leaves w, m and v. The gradient becomes zero; after a norm that is
// not finite it becomes NaN, so that no later step changes anything either before the host has looked.

#ifndef SLUICE_CPU_ADAM_STEP
#define SLUICE_CPU_ADAM_STEP
namespace sluice::cpu {
/// One step's numbers, the same for every element.
struct AdamStep {
  bool update;
  float rest; // what the gradient becomes
  float gradientScale, beta1, beta2, keep, rate, inverseRoot, epsilon;
};
} // namespace sluice::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void adamRange(const AdamStep &step, int64_t n, float *w, float *m, float *v, float *gradient) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, step.gradientScale), beta1 = hn::Set(d, step.beta1),
             beta2 = hn::Set(d, step.beta2);
  const auto rest1 = hn::Set(d, 1.0f - step.beta1), rest2 = hn::Set(d, 1.0f - step.beta2);
  const auto keep = hn::Set(d, step.keep), rate = hn::Set(d, step.rate);
  const auto inverseRoot = hn::Set(d, step.inverseRoot), epsilon = hn::Set(d, step.epsilon);
  auto advance = [&](float *pw, float *pm, float *pv, float *pg) {
    const auto g = hn::Mul(hn::LoadU(d, pg), scale);
    const auto newM = hn::MulAdd(beta1, hn::LoadU(d, pm), hn::Mul(rest1, g));
    const auto newV = hn::MulAdd(beta2, hn::LoadU(d, pv), hn::Mul(rest2, hn::Mul(g, g)));
    const auto denominator = hn::MulAdd(hn::Sqrt(newV), inverseRoot, epsilon);
    hn::StoreU(newM, d, pm);
    hn::StoreU(newV, d, pv);
    hn::StoreU(hn::NegMulAdd(rate, hn::Div(newM, denominator), hn::Mul(keep, hn::LoadU(d, pw))), d, pw);
    hn::StoreU(hn::Zero(d), d, pg);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    advance(w + i, m + i, v + i, gradient + i);
  if (i == n)
    return;
  HWY_ALIGN float part[4][HWY_MAX_BYTES / sizeof(float)] = {};
  float *const all[4] = {w + i, m + i, v + i, gradient + i};
  for (int k = 0; k < 4; ++k)
    for (int64_t j = 0; j < n - i; ++j)
      part[k][j] = all[k][j];
  advance(part[0], part[1], part[2], part[3]);
  for (int k = 0; k < 4; ++k)
    for (int64_t j = 0; j < n - i; ++j)
      all[k][j] = part[k][j];
}

} // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
HWY_EXPORT(adamRange);

namespace {

constexpr int64_t grain = 1 << 15;

/// A scalar operand of any number type.
double readScalar(const Tensor &tensor) {
  switch (tensor.type) {
  case ElementType::I32:
    return *tensor.as<int32_t>();
  case ElementType::I64:
    return static_cast<double>(*tensor.as<int64_t>());
  case ElementType::F64:
    return *tensor.as<double>();
  default:
    return *tensor.f32();
  }
}

/// What the scalars say when the command runs.
AdamStep stepOf(const AdamArguments &adam) {
  const AdamSettings &settings = adam.settings;
  const double learningRate = readScalar(adam.scalars[0]), index = readScalar(adam.scalars[1]),
               tokens = readScalar(adam.scalars[2]), norm = readScalar(adam.scalars[3]);
  AdamStep step{};
  step.update = std::isfinite(norm) && tokens > 0;
  step.rest = std::isfinite(norm) ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  if (!step.update)
    return step;
  const double shrink = settings.clip > 0 ? std::min(1.0, settings.clip / (norm / tokens + 1e-6)) : 1.0;
  step.gradientScale = static_cast<float>(shrink / tokens);
  step.beta1 = static_cast<float>(settings.beta1);
  step.beta2 = static_cast<float>(settings.beta2);
  step.keep = static_cast<float>(1.0 - learningRate * settings.decay);
  step.rate = static_cast<float>(learningRate / (1.0 - std::pow(settings.beta1, index)));
  step.inverseRoot = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(settings.beta2, index)));
  step.epsilon = static_cast<float>(settings.epsilon);
  return step;
}

void updateRange(const AdamArguments &adam, int64_t begin, int64_t end) {
  const AdamStep step = stepOf(adam);
  if (step.update)
    HWY_DYNAMIC_DISPATCH(adamRange)(step, end - begin, adam.places[0].f32() + begin,
                                    adam.places[1].f32() + begin, adam.places[2].f32() + begin,
                                    adam.places[3].f32() + begin);
  else
    std::fill(adam.places[3].f32() + begin, adam.places[3].f32() + end, step.rest);
}

/// Kept weights with a step counter of their own. Neighbours mostly have one age, so its corrections are
/// kept.
class AgedAdam {
public:
  AgedAdam(const AdamArguments &adam, float *age, double ramp)
      : adam(adam), step(stepOf(adam)), age(age), ramp(ramp) {}

  void update(int64_t i) {
    float &w = adam.places[0].f32()[i], &m = adam.places[1].f32()[i], &v = adam.places[2].f32()[i];
    const float g = adam.places[3].f32()[i] * step.gradientScale;
    age[i] += 1.0f;
    correctFor(age[i]);
    m = std::fma(step.beta1, m, (1.0f - step.beta1) * g) * damping;
    v = std::fma(step.beta2, v, (1.0f - step.beta2) * (g * g));
    w = step.keep * w - rate * (m / std::fma(std::sqrt(v), inverseRoot, step.epsilon));
  }
  bool updates() const { return step.update; }
  float rest() const { return step.rest; }

private:
  void correctFor(float steps) {
    if (steps == known)
      return;
    known = steps;
    const double learningRate = readScalar(adam.scalars[0]);
    rate = static_cast<float>(learningRate / (1.0 - std::pow(adam.settings.beta1, steps)));
    inverseRoot = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(adam.settings.beta2, steps)));
    damping = ramp > 0 ? static_cast<float>(std::min(steps / ramp, 1.0)) : 1.0f;
  }

  const AdamArguments &adam;
  AdamStep step;
  float *age;
  double ramp;
  float known = -1, rate = 0, inverseRoot = 0, damping = 1;
};

} // namespace

StatusOr<PreparedKernel> prepareAdamW(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(8);
  arguments.outputs(4);
  const AdamArguments adam = adamArguments(arguments, 4);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(adam.places[0].elements, grain,
                                     [=](int64_t begin, int64_t end) { updateRange(adam, begin, end); }));
  return kernel;
}

// Without ages the whole range is updated as by adamw, so that a mask that keeps everything changes no bit,
// and what the mask drops is zeroed after it.
StatusOr<PreparedKernel> prepareMaskedAdamW(PrepareContext &context) {
  Arguments arguments(context);
  const MaskedAdamArguments masked = maskedAdamArguments(arguments);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(masked.adam.places[0].elements, grain, [=](int64_t begin, int64_t end) {
    const AdamArguments &adam = masked.adam;
    const bool keptForm = masked.keptForm;
    const auto *bits = keptForm ? nullptr : masked.mask.as<uint8_t>();
    if (!masked.age.data) {
      updateRange(adam, begin, end);
    } else {
      AgedAdam aged(adam, masked.age.f32(), masked.ramp);
      if (keptForm)
        for (int64_t i = begin; i < end && aged.updates(); ++i)
          aged.update(i);
      else
        for (int64_t i = begin; i < end && aged.updates(); i += 64)
          for (uint64_t kept = maskWord(bits, i); kept != 0; kept &= kept - 1)
            aged.update(i + std::countr_zero(kept));
      std::fill(adam.places[3].f32() + begin, adam.places[3].f32() + end, aged.rest());
      if (!keptForm)
        zeroDropped(bits, begin, end, masked.age.f32());
    }
    if (!keptForm)
      for (const Tensor &place : adam.places)
        zeroDropped(bits, begin, end, place.f32());
  }));
  return kernel;
}

StatusOr<PreparedKernel> prepareGlobalNorm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.outputs(1);
  const Tensor norm = arguments.output(0);
  arguments.elements(norm, 1, "the norm");
  struct Piece {
    const float *data;
    int64_t count;
  };
  auto pieces = std::make_shared<std::vector<Piece>>();
  for (size_t i = 0; i < arguments.inputCount(); ++i) {
    const Tensor gradient = arguments.input(i);
    for (int64_t begin = 0; begin < gradient.elements; begin += grain)
      pieces->push_back({gradient.f32() + begin, std::min(grain, gradient.elements - begin)});
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.workspaceBytes = pieces->size() * sizeof(double);
  kernel.stages.push_back({static_cast<int64_t>(pieces->size()), [=](const Tile &tile) {
                             const Piece &piece = (*pieces)[static_cast<size_t>(tile.index)];
                             reinterpret_cast<double *>(tile.workspace)[tile.index] =
                                 rowSquares(piece.data, piece.count);
                           }});
  kernel.stages.push_back({1, [=](const Tile &tile) {
                             const double *sums = reinterpret_cast<const double *>(tile.workspace);
                             double total = 0;
                             for (size_t i = 0; i < pieces->size(); ++i)
                               total += sums[i];
                             *norm.f32() = static_cast<float>(std::sqrt(total));
                           }});
  return kernel;
}

} // namespace sluice::cpu
#endif
