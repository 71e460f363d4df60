// cvt: one value from one type to another, as PTX defines it.
#pragma once

#include "runtime/device/cudasim/program/Program.h"

#include <optional>
#include <string_view>

namespace sluice::cudasim {

enum class ValueType : uint8_t { U8, S8, U16, S16, U32, S32, U64, S64, F16, Bf16, F32, F64 };

/// The type named "u8", "bf16" ..., nullopt for another name.
std::optional<ValueType> valueType(std::string_view name);
uint32_t valueBytes(ValueType type);
bool isFloat(ValueType type);
bool isSigned(ValueType type);

struct Conversion {
  ValueType result = ValueType::U32, source = ValueType::U32;
  Rounding rounding = Rounding::Nearest;
  bool toIntegral = false; // rni, rzi, rmi, rpi: a float becomes a whole number
  bool flushDenormals = false, saturate = false;
};

/// Converts the low bits of `bits`. The result is sign- or zero-extended to 64 bits. Floats that do not fit
/// an integer are clamped; NaN becomes 0, or the top bit alone for 64-bit results and float64 sources.
uint64_t convert(uint64_t bits, const Conversion &conversion);

} // namespace sluice::cudasim
