// The exponential in portable SIMD, compiled once for each instruction set (include it after hwy/highway.h).
#if defined(SLUICE_CPU_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_CPU_SIMD_MATH_INL_H
#undef SLUICE_CPU_SIMD_MATH_INL_H
#else
#define SLUICE_CPU_SIMD_MATH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// exp(x), relative error below 2e-7 where the result is a normal number; 0 below, infinity above, NaN for
/// NaN. Range reduction by Cody and Waite, polynomial of the Cephes library (expf).
template <typename Tag, typename Vector = hn::Vec<Tag>> HWY_INLINE Vector fastExp(Tag d, Vector x) {
  const hn::RebindToSigned<Tag> integers;
  // Clamping the exponent, not x, lets NaN and infinity pass through the polynomial.
  Vector n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  n = hn::Min(hn::Max(n, hn::Set(d, -126.0f)), hn::Set(d, 127.0f));
  Vector r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  Vector p = hn::Set(d, 1.9875691500e-4f);
  for (float coefficient :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = hn::MulAdd(p, r, hn::Set(d, coefficient));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(integers, n), hn::Set(integers, 127)));
  const Vector result = hn::Mul(p, hn::BitCast(d, power));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365447f)), result);
}

/// 1 / (1 + exp(-x)).
template <typename Tag, typename Vector = hn::Vec<Tag>> HWY_INLINE Vector fastSigmoid(Tag d, Vector x) {
  const Vector one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, fastExp(d, hn::Neg(x))));
}

} // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
