#include "runtime/device/cpu/RowMath.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/device/cpu/RowMath.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "runtime/device/cpu/SimdMath-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr Tag d;

/// The last elements of a row as a vector, zeros behind them.
HWY_INLINE Vector loadPart(const float *x, int64_t count) {
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t i = 0; i < count; ++i)
    part[i] = x[i];
  return hn::Load(d, part);
}

HWY_INLINE void storePart(Vector value, float *x, int64_t count) {
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(value, d, part);
  for (int64_t i = 0; i < count; ++i)
    x[i] = part[i];
}

/// Elementwise: out[i] = function(inputs at i...).
template <typename Function, typename... Inputs>
HWY_INLINE void map(int64_t n, float *out, Function function, const Inputs *...inputs) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(function(hn::LoadU(d, inputs + i)...), d, out + i);
  if (i < n)
    storePart(function(loadPart(inputs + i, n - i)...), out + i, n - i);
}

/// Four running values hide the latency of the additions. `rest` handles the last n % lanes elements alone.
template <typename Step, typename Rest> HWY_INLINE float reduceSum(int64_t n, Step step, Rest rest) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = step(s0, i);
    s1 = step(s1, i + lanes);
    s2 = step(s2, i + 2 * lanes);
    s3 = step(s3, i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes)
    s0 = step(s0, i);
  if (i < n)
    s1 = rest(s1, i, n - i);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

/// The first `count` lanes of value, zeros elsewhere.
HWY_INLINE Vector firstLanes(Vector value, int64_t count) {
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), value);
}

float maxOf(const float *x, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector m0 = hn::Set(d, -std::numeric_limits<float>::infinity()), m1 = m0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
  }
  float most = hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
  for (; i < n; ++i)
    most = x[i] > most ? x[i] : most;
  return most;
}

float dot(const float *x, const float *y, int64_t n) {
  return reduceSum(
      n, [=](Vector sum, int64_t i) { return hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum); },
      [=](Vector sum, int64_t i, int64_t c) {
        return hn::MulAdd(loadPart(x + i, c), loadPart(y + i, c), sum);
      });
}

double squares(const float *x, int64_t n) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  auto s0 = hn::Zero(wide), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::PromoteTo(wide, hn::LoadU(narrow, x + i));
    const auto b = hn::PromoteTo(wide, hn::LoadU(narrow, x + i + lanes));
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(s0, s1)));
  for (; i < n; ++i)
    sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

float sumExp(const float *x, int64_t n, float multiplier, float shift) {
  const Vector m = hn::Set(d, multiplier), s = hn::Set(d, shift);
  return reduceSum(
      n,
      [=](Vector sum, int64_t i) { return hn::Add(sum, fastExp(d, hn::MulSub(m, hn::LoadU(d, x + i), s))); },
      [=](Vector sum, int64_t i, int64_t c) {
        return hn::Add(sum, firstLanes(fastExp(d, hn::MulSub(m, loadPart(x + i, c), s)), c));
      });
}

float expRow(const float *x, int64_t n, float multiplier, float shift, float *out) {
  const Vector m = hn::Set(d, multiplier), s = hn::Set(d, shift);
  return reduceSum(
      n,
      [=](Vector sum, int64_t i) {
        const Vector e = fastExp(d, hn::MulSub(m, hn::LoadU(d, x + i), s));
        hn::StoreU(e, d, out + i);
        return hn::Add(sum, e);
      },
      [=](Vector sum, int64_t i, int64_t c) {
        const Vector e = firstLanes(fastExp(d, hn::MulSub(m, loadPart(x + i, c), s)), c);
        storePart(e, out + i, c);
        return hn::Add(sum, e);
      });
}

void scaledExp(const float *x, int64_t n, float shift, float factor, float *out) {
  const Vector s = hn::Set(d, shift), f = hn::Set(d, factor);
  map(n, out, [=](Vector v) { return hn::Mul(f, fastExp(d, hn::Sub(v, s))); }, x);
}

void scale(const float *x, int64_t n, float factor, float *out) {
  const Vector f = hn::Set(d, factor);
  map(n, out, [=](Vector v) { return hn::Mul(f, v); }, x);
}

void addScaled(const float *x, int64_t n, float factor, float *y) {
  const Vector f = hn::Set(d, factor);
  map(n, y, [=](Vector a, Vector b) { return hn::MulAdd(f, a, b); }, x, static_cast<const float *>(y));
}

void softmaxAdjoint(const float *p, const float *dp, int64_t n, float shift, float factor, float *out) {
  const Vector s = hn::Set(d, shift), f = hn::Set(d, factor);
  map(n, out, [=](Vector a, Vector b) { return hn::Mul(hn::Mul(a, hn::Sub(b, s)), f); }, p, dp);
}

void swiglu(const float *gate, const float *up, int64_t n, float *out) {
  map(n, out, [](Vector g, Vector u) { return hn::Mul(hn::Mul(g, fastSigmoid(d, g)), u); }, gate, up);
}

void swigluAdjoint(const float *gate, const float *up, const float *dout, int64_t n, float *dgate,
                   float *dup) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vector one = hn::Set(d, 1.0f);
  // silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
  auto step = [&](Vector g, Vector u, Vector y, Vector &dg, Vector &du) {
    const Vector s = fastSigmoid(d, g);
    du = hn::Mul(y, hn::Mul(g, s));
    dg = hn::Mul(hn::Mul(y, u), hn::Mul(s, hn::MulAdd(g, hn::Sub(one, s), one)));
  };
  int64_t i = 0;
  Vector dg, du;
  for (; i + lanes <= n; i += lanes) {
    step(hn::LoadU(d, gate + i), hn::LoadU(d, up + i), hn::LoadU(d, dout + i), dg, du);
    hn::StoreU(dg, d, dgate + i);
    hn::StoreU(du, d, dup + i);
  }
  if (i < n) {
    step(loadPart(gate + i, n - i), loadPart(up + i, n - i), loadPart(dout + i, n - i), dg, du);
    storePart(dg, dgate + i, n - i);
    storePart(du, dup + i, n - i);
  }
}

void rotate(const float *x, const float *cosine, const float *sine, int64_t half, float direction,
            float *out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vector sign = hn::Set(d, direction);
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const Vector a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const Vector c = hn::LoadU(d, cosine + i), s = hn::Mul(sign, hn::LoadU(d, sine + i));
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, out + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, out + half + i);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i], s = direction * sine[i];
    out[i] = a * cosine[i] - b * s;
    out[half + i] = b * cosine[i] + a * s;
  }
}

} // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
HWY_EXPORT(maxOf);
HWY_EXPORT(dot);
HWY_EXPORT(squares);
HWY_EXPORT(sumExp);
HWY_EXPORT(expRow);
HWY_EXPORT(scaledExp);
HWY_EXPORT(scale);
HWY_EXPORT(addScaled);
HWY_EXPORT(softmaxAdjoint);
HWY_EXPORT(swiglu);
HWY_EXPORT(swigluAdjoint);
HWY_EXPORT(rotate);

float rowMax(const float *x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(maxOf)(x, n);
}
float rowDot(const float *x, const float *y, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot)(x, y, n);
}
double rowSquares(const float *x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(squares)(x, n);
}
float rowSumExp(const float *x, int64_t n, float multiplier, float shift) {
  return HWY_DYNAMIC_DISPATCH(sumExp)(x, n, multiplier, shift);
}
float rowExp(const float *x, int64_t n, float multiplier, float shift, float *out) {
  return HWY_DYNAMIC_DISPATCH(expRow)(x, n, multiplier, shift, out);
}
void rowScaledExp(const float *x, int64_t n, float shift, float factor, float *out) {
  HWY_DYNAMIC_DISPATCH(scaledExp)(x, n, shift, factor, out);
}
void rowScale(const float *x, int64_t n, float factor, float *out) {
  HWY_DYNAMIC_DISPATCH(scale)(x, n, factor, out);
}
void rowAddScaled(const float *x, int64_t n, float factor, float *y) {
  HWY_DYNAMIC_DISPATCH(addScaled)(x, n, factor, y);
}
void rowSoftmaxAdjoint(const float *p, const float *dp, int64_t n, float shift, float factor, float *out) {
  HWY_DYNAMIC_DISPATCH(softmaxAdjoint)(p, dp, n, shift, factor, out);
}
void rowSwiglu(const float *gate, const float *up, int64_t n, float *out) {
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, n, out);
}
void rowSwigluAdjoint(const float *gate, const float *up, const float *dout, int64_t n, float *dgate,
                      float *dup) {
  HWY_DYNAMIC_DISPATCH(swigluAdjoint)(gate, up, dout, n, dgate, dup);
}
void rowRotate(const float *x, const float *cosine, const float *sine, int64_t half, float direction,
               float *out) {
  HWY_DYNAMIC_DISPATCH(rotate)(x, cosine, sine, half, direction, out);
}
} // namespace sluice::cpu
#endif
