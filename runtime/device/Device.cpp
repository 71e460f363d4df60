#include "runtime/device/Device.h"

namespace sluice {
namespace {

/// What kind of value an attribute holds, for messages.
std::string_view kindOf(const std::variant<int64_t, double, std::string> &value) {
  static constexpr std::string_view names[] = {"an integer", "a number", "a text"};
  return names[value.index()];
}

const CommandAttribute *find(const Command &command, std::string_view name) {
  for (const CommandAttribute &attribute : command.attributes)
    if (attribute.name == name)
      return &attribute;
  return nullptr;
}

template <typename Value>
StatusOr<Value> get(const Command &command, std::string_view name, std::string_view expected) {
  const CommandAttribute *attribute = find(command, name);
  if (!attribute)
    return badInputError("command '", command.kind, "' of '", command.origin, "': expected ", expected,
                         " as attribute '", name, "', found none; compile the model again");
  if (const Value *value = std::get_if<Value>(&attribute->value))
    return *value;
  return badInputError("command '", command.kind, "' of '", command.origin, "': expected ", expected,
                       " as attribute '", name, "', found ", kindOf(attribute->value),
                       "; compile the model again");
}

} // namespace

int64_t elementSize(ElementType type) {
  switch (type) {
  case ElementType::F32: return 4;
  case ElementType::F64: return 8;
  case ElementType::BF16: return 2;
  case ElementType::I32: return 4;
  case ElementType::I64: return 8;
  case ElementType::U8: return 1;
  }
  return 0;
}

std::string_view elementTypeName(ElementType type) {
  switch (type) {
  case ElementType::F32: return "f32";
  case ElementType::F64: return "f64";
  case ElementType::BF16: return "bf16";
  case ElementType::I32: return "i32";
  case ElementType::I64: return "i64";
  case ElementType::U8: return "u8";
  }
  return "unknown";
}

int64_t Operand::elements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

StatusOr<int64_t> Command::integer(std::string_view name) const { return get<int64_t>(*this, name, "an integer"); }

StatusOr<double> Command::number(std::string_view name) const {
  const CommandAttribute *attribute = find(*this, name);
  if (attribute)
    if (const int64_t *integer = std::get_if<int64_t>(&attribute->value))
      return static_cast<double>(*integer);
  return get<double>(*this, name, "a number");
}

StatusOr<std::string> Command::text(std::string_view name) const { return get<std::string>(*this, name, "a text"); }

int64_t Command::integerOr(std::string_view name, int64_t fallback) const {
  const CommandAttribute *attribute = find(*this, name);
  const int64_t *value = attribute ? std::get_if<int64_t>(&attribute->value) : nullptr;
  return value ? *value : fallback;
}

double Command::numberOr(std::string_view name, double fallback) const {
  const CommandAttribute *attribute = find(*this, name);
  if (!attribute)
    return fallback;
  if (const double *value = std::get_if<double>(&attribute->value))
    return *value;
  const int64_t *integer = std::get_if<int64_t>(&attribute->value);
  return integer ? static_cast<double>(*integer) : fallback;
}

} // namespace sluice
