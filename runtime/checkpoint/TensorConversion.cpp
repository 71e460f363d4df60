#include "runtime/checkpoint/TensorConversion.h"

#include "runtime/checkpoint/StrictJson.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is read in place as little-endian");

float bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float halfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) // infinity and NaN, whose payload is kept
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) { // zero and subnormal values, mantissa x 2^-24
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Whether `to` means the same number as `from`; NaN equals NaN.
template <typename To, typename From> bool sameNumber(From from, To to) {
  if constexpr (std::is_floating_point_v<From>) {
    return static_cast<From>(to) == from || (std::isnan(from) && std::isnan(to));
  } else { // an integer: rounding may have reached 2^31 or 2^63, which does not fit back
    constexpr From half = std::numeric_limits<From>::max() / 2 + 1; // 2^30 or 2^62
    return to < static_cast<To>(half) * 2 && static_cast<From>(to) == from;
  }
}

template <typename To> Status inexact(const TensorView &tensor, size_t element, double value) {
  return badInputError("tensor ", inQuotes(tensor.name), " (", tensorTypeName(tensor.type),
                       "): expected values that ",
                       std::is_same_v<To, float>    ? "float32"
                       : std::is_same_v<To, double> ? "float64"
                                                    : "int32",
                       " holds exactly, found ", absl::StrFormat("%.17g", value), " at element ", element);
}

/// Converts all elements; `decode` makes the number of one stored element.
template <typename To, typename Stored, typename Decode>
Status convert(const TensorView &tensor, To *destination, bool exact, Decode decode) {
  const size_t count = tensor.bytes / sizeof(Stored);
  for (size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, tensor.data + i * sizeof stored, sizeof stored);
    const auto value = decode(stored);
    if constexpr (std::is_same_v<To, int32_t>) {
      // The comparison comes first: the conversion of a number beyond the range is undefined. NaN fails it.
      using Wide = std::conditional_t<std::is_floating_point_v<decltype(decode(stored))>, double, int64_t>;
      const Wide wide = value;
      if (!(wide >= std::numeric_limits<int32_t>::min() && wide <= std::numeric_limits<int32_t>::max()) ||
          static_cast<Wide>(static_cast<int32_t>(wide)) != wide)
        return inexact<To>(tensor, i, static_cast<double>(value));
      destination[i] = static_cast<int32_t>(value);
    } else {
      const To converted = static_cast<To>(value);
      if (exact && !sameNumber(value, converted))
        return inexact<To>(tensor, i, static_cast<double>(value));
      destination[i] = converted;
    }
  }
  return absl::OkStatus();
}

template <typename To> Status convertAny(const TensorView &tensor, To *destination, Conversion conversion) {
  const bool exact = conversion == Conversion::Exact;
  switch (tensor.type) {
  case TensorType::F64:
    return convert<To, double>(tensor, destination, exact, [](double v) { return v; });
  case TensorType::F32:
    return convert<To, float>(tensor, destination, exact, [](float v) { return v; });
  case TensorType::BF16:
    return convert<To, uint16_t>(tensor, destination, exact, bfloat16ToFloat);
  case TensorType::F16:
    return convert<To, uint16_t>(tensor, destination, exact, halfToFloat);
  case TensorType::I32:
    return convert<To, int32_t>(tensor, destination, exact, [](int32_t v) { return v; });
  case TensorType::I64:
    return convert<To, int64_t>(tensor, destination, exact, [](int64_t v) { return v; });
  default:
    return badInputError("tensor ", inQuotes(tensor.name),
                         ": expected F64, F32, BF16, F16, I32 or I64, found ", tensorTypeName(tensor.type));
  }
}

template <typename To> StatusOr<std::vector<To>> toVector(const TensorView &tensor, Conversion conversion) {
  std::vector<To> values(static_cast<size_t>(tensor.elements()));
  SLUICE_RETURN_IF_ERROR(convertAny(tensor, values.data(), conversion));
  return values;
}

} // namespace

StatusOr<std::vector<float>> toFloat32(const TensorView &tensor, Conversion conversion) {
  return toVector<float>(tensor, conversion);
}
StatusOr<std::vector<double>> toFloat64(const TensorView &tensor, Conversion conversion) {
  return toVector<double>(tensor, conversion);
}
StatusOr<std::vector<int32_t>> toInt32(const TensorView &tensor) {
  return toVector<int32_t>(tensor, Conversion::Exact);
}

Status readFloat32(const TensorView &tensor, float *destination, Conversion conversion) {
  return convertAny(tensor, destination, conversion);
}

} // namespace sluice
