#include "runtime/device/Device.h"

namespace sluice {

int64_t elementSize(ElementType type) {
  switch (type) {
  case ElementType::F32:
  case ElementType::I32:
    return 4;
  case ElementType::F64:
  case ElementType::I64:
    return 8;
  case ElementType::BF16:
    return 2;
  case ElementType::U8:
    return 1;
  }
  return 1;
}

std::string_view elementTypeName(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return "f32";
  case ElementType::F64:
    return "f64";
  case ElementType::BF16:
    return "bf16";
  case ElementType::I32:
    return "i32";
  case ElementType::I64:
    return "i64";
  case ElementType::U8:
    return "u8";
  }
  return "unknown";
}

int64_t Operand::elements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

namespace {

uint64_t distinctBytes(const std::vector<Operand> &operands) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    bool isNew = true;
    for (size_t j = 0; j < i; ++j)
      isNew = isNew && (operands[j].arena != operands[i].arena || operands[j].offset != operands[i].offset);
    bytes += isNew ? operands[i].bytes() : 0;
  }
  return bytes;
}

const CommandAttribute *find(const Command &command, std::string_view name) {
  for (const CommandAttribute &attribute : command.attributes)
    if (attribute.name == name)
      return &attribute;
  return nullptr;
}

Status attributeError(const Command &command, std::string_view name, std::string_view expected) {
  return badInputError("command ", command.kind, " of '", command.origin, "': attribute '", name,
                       "' must be ", expected,
                       find(command, name) ? ", and has another type" : ", and is absent",
                       "; the executable is damaged or was made by another version, compile it again");
}

} // namespace

StatusOr<uint64_t> Device::workspaceBytes(absl::Span<const Command>, absl::Span<const uint64_t>) const {
  return 0;
}

StatusOr<int64_t> Command::integer(std::string_view name) const {
  if (const CommandAttribute *attribute = find(*this, name))
    if (const int64_t *value = std::get_if<int64_t>(&attribute->value))
      return *value;
  return attributeError(*this, name, "an integer");
}

StatusOr<double> Command::number(std::string_view name) const {
  if (const CommandAttribute *attribute = find(*this, name)) {
    if (const double *value = std::get_if<double>(&attribute->value))
      return *value;
    if (const int64_t *value = std::get_if<int64_t>(&attribute->value))
      return static_cast<double>(*value);
  }
  return attributeError(*this, name, "a number");
}

StatusOr<std::string> Command::text(std::string_view name) const {
  if (const CommandAttribute *attribute = find(*this, name))
    if (const std::string *value = std::get_if<std::string>(&attribute->value))
      return *value;
  return attributeError(*this, name, "a text");
}

uint64_t Command::inputBytes() const {
  return distinctBytes(inputs);
}

uint64_t Command::outputBytes() const {
  return distinctBytes(outputs);
}

int64_t Command::integerOr(std::string_view name, int64_t fallback) const {
  StatusOr<int64_t> value = integer(name);
  return value.ok() ? *value : fallback;
}

double Command::numberOr(std::string_view name, double fallback) const {
  StatusOr<double> value = number(name);
  return value.ok() ? *value : fallback;
}

} // namespace sluice
