#include "runtime/checkpoint/TensorType.h"

#include <array>

namespace sluice {
namespace {

struct TypeFacts {
  std::string_view name;
  unsigned bits;
};

/// Indexed by TensorType.
constexpr std::array<TypeFacts, 22> facts = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

} // namespace

std::string_view tensorTypeName(TensorType type) {
  return facts[static_cast<size_t>(type)].name;
}

unsigned tensorTypeBits(TensorType type) {
  return facts[static_cast<size_t>(type)].bits;
}

std::optional<TensorType> tensorTypeOf(std::string_view name) {
  for (size_t i = 0; i < facts.size(); ++i)
    if (facts[i].name == name)
      return static_cast<TensorType>(i);
  return std::nullopt;
}

} // namespace sluice
