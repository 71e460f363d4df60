#include "runtime/device/cudasim/instructions/Conversion.h"

#include "runtime/device/cudasim/instructions/FloatEnvironment.h"

#include <bit>
#include <cmath>
#include <limits>

namespace sluice::cudasim {

namespace {

struct TypeRow {
  std::string_view name;
  uint8_t bytes;
  bool isFloat, isSigned;
};
constexpr TypeRow kTypes[] = {
    {"u8", 1, false, false},  {"s8", 1, false, true},  {"u16", 2, false, false}, {"s16", 2, false, true},
    {"u32", 4, false, false}, {"s32", 4, false, true}, {"u64", 8, false, false}, {"s64", 8, false, true},
    {"f16", 2, true, true},   {"bf16", 2, true, true}, {"f32", 4, true, true},   {"f64", 8, true, true},
};

const TypeRow &rowOf(ValueType type) {
  return kTypes[static_cast<int>(type)];
}

uint64_t extend(uint64_t bits, ValueType type) {
  const int shift = 64 - 8 * rowOf(type).bytes;
  return rowOf(type).isSigned && !rowOf(type).isFloat
             ? static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift)
             : bits << shift >> shift;
}

/// Rounds to a format with `mantissa` stored bits and exponents from `lowest` (of its smallest normal) to
/// `highest`; all in float64, which holds both formats exactly. Float32 and smaller.
double roundToFormat(double value, int mantissa, int lowest, int highest, Rounding rounding) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, lowest) - mantissa;
  const double scaled = std::ldexp(value, -unit);
  double whole = 0;
  switch (rounding) {
  case Rounding::Nearest:
    whole = std::nearbyint(scaled);
    break;
  case Rounding::Zero:
    whole = std::trunc(scaled);
    break;
  case Rounding::Down:
    whole = std::floor(scaled);
    break;
  case Rounding::Up:
    whole = std::ceil(scaled);
    break;
  }
  double result = std::ldexp(whole, unit);
  const double largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa), highest);
  if (std::fabs(result) > largest) {
    const bool towardsInfinity = rounding == Rounding::Nearest || (rounding == Rounding::Up && value > 0) ||
                                 (rounding == Rounding::Down && value < 0);
    result = std::copysign(towardsInfinity ? std::numeric_limits<double>::infinity() : largest, value);
  }
  return std::copysign(result, value);
}

double fromBits(uint64_t bits, ValueType type) {
  switch (type) {
  case ValueType::F64:
    return std::bit_cast<double>(bits);
  case ValueType::F32:
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  case ValueType::Bf16:
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  default: { // F16
    const uint32_t sign = bits >> 15 & 1, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = 0;
    if (exponent == 31)
      value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    else if (exponent == 0)
      value = std::ldexp(mantissa, -24);
    else
      value = std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
    return sign ? -value : value;
  }
  }
}

/// `value` is a value of the type already, save for float64's own.
uint64_t toBits(double value, ValueType type) {
  switch (type) {
  case ValueType::F64:
    return std::bit_cast<uint64_t>(value);
  case ValueType::F32:
    return value != value ? 0x7fffffff : std::bit_cast<uint32_t>(static_cast<float>(value));
  case ValueType::Bf16:
    return value != value ? 0x7fff : std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
  default: { // F16
    if (value != value)
      return 0x7fff;
    const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(value);
    if (std::isinf(size))
      return sign | 0x7c00;
    int exponent = 0;
    std::frexp(size, &exponent);
    if (size < 0x1p-14)
      return sign | static_cast<uint64_t>(std::ldexp(size, 24));
    return sign | static_cast<uint64_t>(exponent + 14) << 10 |
           (static_cast<uint64_t>(std::ldexp(size, 11 - exponent)) & 1023);
  }
  }
}

double roundToType(double value, ValueType type, Rounding rounding) {
  switch (type) {
  case ValueType::F32:
    return roundToFormat(value, 23, -126, 127, rounding);
  case ValueType::Bf16:
    return roundToFormat(value, 7, -126, 127, rounding);
  case ValueType::F16:
    return roundToFormat(value, 10, -14, 15, rounding);
  default:
    return value;
  }
}

double roundToIntegral(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

double flushed(double value, ValueType type) {
  return type == ValueType::F32 && std::fabs(value) < 0x1p-126 ? std::copysign(0.0, value) : value;
}

uint64_t floatToInteger(double value, const Conversion &conversion) {
  const TypeRow &result = rowOf(conversion.result);
  if (value != value) {
    const bool topBit = result.bytes == 8 || conversion.source == ValueType::F64;
    return topBit ? uint64_t(1) << (8 * result.bytes - 1) : 0;
  }
  value = roundToIntegral(value, conversion.rounding);
  const int bits = 8 * result.bytes - (result.isSigned ? 1 : 0);
  const double limit = std::ldexp(1.0, bits);
  const uint64_t largest = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  if (value >= limit)
    return largest;
  if (!result.isSigned)
    return value <= 0 ? 0 : static_cast<uint64_t>(value);
  return value < -limit ? static_cast<uint64_t>(-static_cast<int64_t>(largest) - 1)
                        : static_cast<uint64_t>(static_cast<int64_t>(value));
}

/// A 64-bit integer has more bits than float64; long double holds all of them.
uint64_t integerToFloat(uint64_t bits, const Conversion &conversion) {
  const uint64_t wide = extend(bits, conversion.source);
  const bool negative = isSigned(conversion.source) && static_cast<int64_t>(wide) < 0;
  static_assert(std::numeric_limits<long double>::digits >= 64, "a 64-bit integer must be exact");
  const RoundingScope scope(conversion.rounding);
  const long double exact = opaque(negative ? static_cast<long double>(static_cast<int64_t>(wide))
                                            : static_cast<long double>(wide));
  if (conversion.result == ValueType::F64)
    return std::bit_cast<uint64_t>(opaque(static_cast<double>(exact)));
  if (conversion.result == ValueType::F32)
    return std::bit_cast<uint32_t>(opaque(static_cast<float>(exact)));
  // Half formats: float64 is exact up to 53 bits, and rounding to odd keeps the rest from being lost.
  double value = 0;
  {
    const RoundingScope truncating(Rounding::Zero);
    value = opaque(static_cast<double>(exact));
    if (static_cast<long double>(value) != exact)
      value = std::bit_cast<double>(std::bit_cast<uint64_t>(value) | 1);
  }
  const RoundingScope nearest(Rounding::Nearest);
  return toBits(roundToType(value, conversion.result, conversion.rounding), conversion.result);
}

/// An integer clamped to the range of a narrower one.
uint64_t clampInteger(uint64_t bits, const Conversion &conversion) {
  const TypeRow &result = rowOf(conversion.result);
  const int valueBits = 8 * result.bytes - (result.isSigned ? 1 : 0);
  const uint64_t largest = valueBits == 64 ? ~uint64_t(0) : (uint64_t(1) << valueBits) - 1;
  const bool negative = isSigned(conversion.source) && static_cast<int64_t>(bits) < 0;
  if (!negative)
    return bits > largest ? largest : bits;
  if (!result.isSigned)
    return 0;
  const int64_t lowest = -static_cast<int64_t>(largest) - 1;
  return static_cast<int64_t>(bits) < lowest ? static_cast<uint64_t>(lowest) : bits;
}

} // namespace

std::optional<ValueType> valueType(std::string_view name) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (kTypes[i].name == name)
      return static_cast<ValueType>(i);
  return std::nullopt;
}
uint32_t valueBytes(ValueType type) {
  return rowOf(type).bytes;
}
bool isFloat(ValueType type) {
  return rowOf(type).isFloat;
}
bool isSigned(ValueType type) {
  return rowOf(type).isSigned;
}

uint64_t convert(uint64_t bits, const Conversion &conversion) {
  if (!isFloat(conversion.source)) {
    if (isFloat(conversion.result))
      return integerToFloat(bits, conversion);
    const uint64_t wide = extend(bits, conversion.source);
    return extend(conversion.saturate ? clampInteger(wide, conversion) : wide, conversion.result);
  }
  double value = fromBits(extend(bits, conversion.source), conversion.source);
  if (conversion.flushDenormals)
    value = flushed(value, conversion.source);
  if (!isFloat(conversion.result))
    return extend(floatToInteger(value, conversion), conversion.result);
  if (conversion.toIntegral)
    value = std::copysign(roundToIntegral(value, conversion.rounding), value);
  value = roundToType(value, conversion.result, conversion.rounding);
  if (conversion.flushDenormals)
    value = flushed(value, conversion.result);
  if (conversion.saturate)
    value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  return toBits(value, conversion.result);
}

} // namespace sluice::cudasim
