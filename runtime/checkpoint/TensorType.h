// The element types of the safetensors format: names, widths and the order in which tensors are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

/// In increasing alignment, as the format's own library lists them; the writer puts the last ones first.
enum class TensorType : uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64,
};

/// The type's name in a safetensors header, e.g. "BF16".
std::string_view tensorTypeName(TensorType type);
/// The type of a name; nothing when the name is unknown. Names are case sensitive.
std::optional<TensorType> tensorTypeOf(std::string_view name);
/// The width of one element in bits (4 and 6 exist: a tensor must fill whole bytes).
unsigned tensorTypeBits(TensorType type);

} // namespace sluice
