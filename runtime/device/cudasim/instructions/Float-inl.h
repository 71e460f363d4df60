// Floating-point instructions as functions of one lane. Where PTX says "approx", the result here is the
// correctly rounded one or within one unit in the last place; the hardware's differs within PTX's bounds.
namespace sluice::cudasim::SLUICE_TARGET {
namespace {

/// A NaN that a float32 operation makes is always this one.
constexpr uint32_t kCanonicalNan = 0x7fffffff;

inline float canonical(float value) {
  return value != value ? std::bit_cast<float>(kCanonicalNan) : value;
}
inline double canonical(double value) {
  return value;
}

/// Denormals become zero of their sign.
template <bool Flush> inline float flush(float value) {
  if constexpr (!Flush)
    return value;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7f800000) == 0 ? std::bit_cast<float>(bits & 0x80000000) : value;
}
template <bool Flush> inline double flush(double value) {
  return value;
}

/// [0, 1], NaN becomes +0.
template <bool Saturate> inline float saturate(float value) {
  if constexpr (!Saturate)
    return value;
  return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
}
template <bool Saturate> inline double saturate(double value) {
  return value;
}

template <bool Flush, bool Saturate, typename T> inline T finish(T value) {
  return saturate<Saturate>(flush<Flush>(canonical(value)));
}

template <typename T, bool F, bool S> T add(T a, T b) {
  return finish<F, S>(flush<F>(a) + flush<F>(b));
}
template <typename T, bool F, bool S> T subtract(T a, T b) {
  return finish<F, S>(flush<F>(a) - flush<F>(b));
}
template <typename T, bool F, bool S> T multiply(T a, T b) {
  return finish<F, S>(flush<F>(a) * flush<F>(b));
}
template <bool F, bool S> float fused32(float a, float b, float c) {
  return finish<F, S>(__builtin_fmaf(flush<F>(a), flush<F>(b), flush<F>(c)));
}
template <bool F, bool S> double fused64(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
template <typename T, bool F, bool S> T divide(T a, T b) {
  return finish<F, S>(flush<F>(a) / flush<F>(b));
}
template <typename T, bool F, bool S> T reciprocal(T a) {
  return finish<F, S>(T(1) / flush<F>(a));
}
template <typename T, bool F, bool S> T squareRoot(T a) {
  if constexpr (sizeof(T) == 4)
    return finish<F, S>(__builtin_sqrtf(flush<F>(a)));
  else
    return __builtin_sqrt(a);
}

/// The quotient by a reciprocal: zero where the divisor's reciprocal would be a denormal.
template <bool F> float divideApproximately(float a, float b) {
  const float x = flush<F>(a), y = flush<F>(b), size = std::fabs(y);
  if (size > 0x1p126f && size < std::numeric_limits<float>::infinity())
    return std::isinf(x) ? canonical(std::numeric_limits<float>::quiet_NaN())
                         : canonical(std::copysign(0.0f, x) * std::copysign(1.0f, y) * (x == x ? 1.0f : x));
  return finish<F, false>(x / y);
}
template <bool F> float reciprocalRoot(float a) {
  return finish<F, false>(static_cast<float>(1.0 / std::sqrt(static_cast<double>(flush<F>(a)))));
}
/// A gross reciprocal: the upper half of the quotient's bits, the lower half zero, subnormals flushed.
double reciprocalGross(double a) {
  const double quotient = 1.0 / (std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0, a) : a);
  if (std::isnan(quotient) || std::fpclassify(quotient) == FP_SUBNORMAL)
    return std::isnan(quotient) ? quotient : std::copysign(0.0, quotient);
  uint64_t bits;
  std::memcpy(&bits, &quotient, sizeof bits);
  bits &= 0xffffffff00000000;
  double upper;
  std::memcpy(&upper, &bits, sizeof upper);
  return upper;
}
double reciprocalRoot64(double a) {
  return 1.0 / std::sqrt(a);
}
template <bool F> float exponential2(float a) {
  return finish<F, false>(std::exp2(flush<F>(a)));
}
template <bool F> float logarithm2(float a) {
  return finish<F, false>(std::log2(flush<F>(a)));
}
template <bool F> float sine(float a) {
  return finish<F, false>(static_cast<float>(std::sin(static_cast<double>(flush<F>(a)))));
}
template <bool F> float cosine(float a) {
  return finish<F, false>(static_cast<float>(std::cos(static_cast<double>(flush<F>(a)))));
}
float hyperbolicTangent(float a) {
  return canonical(static_cast<float>(std::tanh(static_cast<double>(a))));
}

template <bool F> float negate32(float a) {
  return flush<F>(std::bit_cast<float>(std::bit_cast<uint32_t>(a) ^ 0x80000000u));
}
template <bool F> float absolute32(float a) {
  return flush<F>(std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0x7fffffffu));
}
double negate64(double a) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(a) ^ uint64_t(1) << 63);
}
double absolute64(double a) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(a) & ~(uint64_t(1) << 63));
}
float copySign32(float sign, float magnitude) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(sign) & 0x80000000u) |
                              (std::bit_cast<uint32_t>(magnitude) & 0x7fffffffu));
}
double copySign64(double sign, double magnitude) {
  constexpr uint64_t kSign = uint64_t(1) << 63;
  return std::bit_cast<double>((std::bit_cast<uint64_t>(sign) & kSign) |
                               (std::bit_cast<uint64_t>(magnitude) & ~kSign));
}

/// A NaN loses against a number, unless asked for; -0 is less than +0.
template <typename T, bool F, bool PropagateNan> T least(T x, T y) {
  const T a = flush<F>(x), b = flush<F>(y);
  if (PropagateNan && (a != a || b != b))
    return canonical(a + b);
  if (a != a)
    return canonical(b);
  if (b != b)
    return a;
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename T, bool F, bool PropagateNan> T greatest(T x, T y) {
  const T a = flush<F>(x), b = flush<F>(y);
  if (PropagateNan && (a != a || b != b))
    return canonical(a + b);
  if (a != a)
    return canonical(b);
  if (b != b)
    return a;
  if (a == b)
    return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

template <typename T> bool isFinite(T a) {
  return std::isfinite(a);
}
template <typename T> bool isInfinite(T a) {
  return std::isinf(a);
}
template <typename T> bool isNumber(T a) {
  return a == a;
}
template <typename T> bool isNotNumber(T a) {
  return a != a;
}
template <typename T> bool isNormal(T a) {
  return std::isnormal(a);
}
template <typename T> bool isSubnormal(T a) {
  return std::fpclassify(a) == FP_SUBNORMAL;
}

/// rz, rm and rp: one lane after the other under the host's rounding mode.
enum class Operation { Add, Subtract, Multiply, Divide, Fused, Reciprocal, Root };
template <Operation What, typename T> void directed(Warp &warp, const Op &op, uint32_t mask) {
  T *result = warp.row<T>(op.rows[0]);
  const T *first = warp.row<T>(op.rows[1]);
  const T *second = op.rows[2] == kNoRow ? first : warp.row<T>(op.rows[2]);
  const T *third = op.rows[3] == kNoRow ? first : warp.row<T>(op.rows[3]);
  const auto in = [&](T value) { return opaque(op.flushDenormals ? flush<true>(value) : value); };
  const RoundingScope scope(op.rounding);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const T a = in(first[lane]), b = in(second[lane]), c = in(third[lane]);
    T value = 0;
    switch (What) {
    case Operation::Add:
      value = opaque(a + b);
      break;
    case Operation::Subtract:
      value = opaque(a - b);
      break;
    case Operation::Multiply:
      value = opaque(a * b);
      break;
    case Operation::Divide:
      value = opaque(a / b);
      break;
    case Operation::Fused:
      value = opaque(std::fma(a, b, c));
      break;
    case Operation::Reciprocal:
      value = opaque(opaque(T(1)) / a);
      break;
    case Operation::Root:
      value = opaque(std::sqrt(a));
      break;
    }
    value = canonical(value);
    if (op.flushDenormals)
      value = flush<true>(value);
    result[lane] = op.saturate ? saturate<true>(value) : value;
  }
}

template <Operation What, typename T>
void addDirected(InstructionTable &table, const std::string &name, size_t operands, bool canFlush) {
  const std::string type = sizeof(T) == 4 ? ".f32" : ".f64";
  constexpr std::pair<const char *, Rounding> modes[] = {
      {".rz", Rounding::Zero}, {".rm", Rounding::Down}, {".rp", Rounding::Up}};
  for (const auto &[suffix, rounding] : modes)
    for (const bool flushes : {false, true})
      for (const bool saturates : {false, true}) {
        if ((flushes || saturates) && !canFlush)
          continue;
        PlainRow row;
        row.signature = std::string(operands, sizeof(T) == 4 ? 'f' : 'd');
        row.handler = &directed<What, T>;
        row.rounding = rounding;
        row.flushDenormals = flushes;
        row.saturate = saturates;
        table.addPlain(name + suffix + (flushes ? ".ftz" : "") + (saturates ? ".sat" : "") + type, row);
      }
}

template <bool F, bool S> void addRoundedRows(InstructionTable &table) {
  const std::string suffix = std::string(F ? ".ftz" : "") + (S ? ".sat" : "") + ".f32";
  for (const std::string &rounding : {std::string(), std::string(".rn")}) {
    row<add<float, F, S>>(table, "add" + rounding + suffix);
    row<subtract<float, F, S>>(table, "sub" + rounding + suffix);
    row<multiply<float, F, S>>(table, "mul" + rounding + suffix);
  }
  row<fused32<F, S>>(table, "fma.rn" + suffix);
  row<fused32<F, S>>(table, "mad.rn" + suffix);
}

template <bool F> void addFlushRows(InstructionTable &table) {
  const std::string suffix = std::string(F ? ".ftz" : "") + ".f32";
  row<divide<float, F, false>>(table, "div.rn" + suffix);
  row<divide<float, F, false>>(table, "div.full" + suffix);
  row<divideApproximately<F>>(table, "div.approx" + suffix);
  for (const std::string &kind : {std::string(".rn"), std::string(".approx")}) {
    row<reciprocal<float, F, false>>(table, "rcp" + kind + suffix);
    row<squareRoot<float, F, false>>(table, "sqrt" + kind + suffix);
  }
  row<reciprocalRoot<F>>(table, "rsqrt.approx" + suffix);
  row<exponential2<F>>(table, "ex2.approx" + suffix);
  row<logarithm2<F>>(table, "lg2.approx" + suffix);
  row<sine<F>>(table, "sin.approx" + suffix);
  row<cosine<F>>(table, "cos.approx" + suffix);
  row<negate32<F>>(table, "neg" + suffix);
  row<absolute32<F>>(table, "abs" + suffix);
  row<least<float, F, false>>(table, "min" + suffix);
  row<greatest<float, F, false>>(table, "max" + suffix);
  row<least<float, F, true>>(table, std::string("min") + (F ? ".ftz" : "") + ".NaN.f32");
  row<greatest<float, F, true>>(table, std::string("max") + (F ? ".ftz" : "") + ".NaN.f32");
}

template <typename T> void addTestRows(InstructionTable &table, const std::string &type) {
  row<isFinite<T>>(table, "testp.finite" + type);
  row<isInfinite<T>>(table, "testp.infinite" + type);
  row<isNumber<T>>(table, "testp.number" + type);
  row<isNotNumber<T>>(table, "testp.notanumber" + type);
  row<isNormal<T>>(table, "testp.normal" + type);
  row<isSubnormal<T>>(table, "testp.subnormal" + type);
}

void addDoubleRows(InstructionTable &table) {
  for (const std::string &rounding : {std::string(), std::string(".rn")}) {
    row<add<double, false, false>>(table, "add" + rounding + ".f64");
    row<subtract<double, false, false>>(table, "sub" + rounding + ".f64");
    row<multiply<double, false, false>>(table, "mul" + rounding + ".f64");
  }
  row<fused64<false, false>>(table, "fma.rn.f64");
  row<fused64<false, false>>(table, "mad.rn.f64");
  row<divide<double, false, false>>(table, "div.rn.f64");
  row<reciprocal<double, false, false>>(table, "rcp.rn.f64");
  row<squareRoot<double, false, false>>(table, "sqrt.rn.f64");
  row<reciprocalGross>(table, "rcp.approx.ftz.f64");
  row<reciprocalRoot64>(table, "rsqrt.approx.f64");
  row<negate64>(table, "neg.f64");
  row<absolute64>(table, "abs.f64");
  row<least<double, false, false>>(table, "min.f64");
  row<greatest<double, false, false>>(table, "max.f64");
  row<copySign64>(table, "copysign.f64");
}

template <typename T> void addDirectedRows(InstructionTable &table) {
  constexpr bool isSingle = sizeof(T) == 4;
  addDirected<Operation::Add, T>(table, "add", 3, isSingle);
  addDirected<Operation::Subtract, T>(table, "sub", 3, isSingle);
  addDirected<Operation::Multiply, T>(table, "mul", 3, isSingle);
  addDirected<Operation::Fused, T>(table, "fma", 4, isSingle);
  addDirected<Operation::Divide, T>(table, "div", 3, isSingle);
  addDirected<Operation::Reciprocal, T>(table, "rcp", 2, isSingle);
  addDirected<Operation::Root, T>(table, "sqrt", 2, isSingle);
}

void addRows(InstructionTable &table) {
  addRoundedRows<false, false>(table);
  addRoundedRows<false, true>(table);
  addRoundedRows<true, false>(table);
  addRoundedRows<true, true>(table);
  addFlushRows<false>(table);
  addFlushRows<true>(table);
  row<copySign32>(table, "copysign.f32");
  row<hyperbolicTangent>(table, "tanh.approx.f32");
  addTestRows<float>(table, ".f32");
  addTestRows<double>(table, ".f64");
  addDoubleRows(table);
  addDirectedRows<float>(table);
  addDirectedRows<double>(table);
}

} // namespace
} // namespace sluice::cudasim::SLUICE_TARGET
