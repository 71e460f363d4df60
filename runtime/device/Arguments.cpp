#include "runtime/device/Arguments.h"

#include "absl/strings/str_join.h"

#include <cmath>
#include <cstdlib>

namespace sluice {

int64_t Tensor::dim(int64_t i) const {
  if (i < 0)
    i += rank();
  return i >= 0 && i < rank() ? shape[static_cast<size_t>(i)] : 0;
}

int64_t Tensor::rows() const {
  int64_t count = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    count *= shape[i];
  return count;
}

void Arguments::fail(const std::string &rule) {
  if (first.ok())
    first = badInputError("command ", context.command.kind, " of '", context.command.origin, "': ", rule,
                          "; the executable is damaged or was made by another version, compile it again");
}

void Arguments::supported(bool kept, std::string_view limit) {
  if (!kept && first.ok())
    first = failure("command ", context.command.kind, " of '", context.command.origin, "': ", limit,
                    "; use --device cpu");
}

void Arguments::require(bool holds, std::string_view rule) {
  if (!holds)
    fail(std::string(rule));
}

void Arguments::inputs(size_t from, size_t to) {
  if (inputCount() < from || inputCount() > to)
    fail(concat("it takes ", from, from == to ? "" : concat(" to ", to), " inputs, found ", inputCount()));
}

void Arguments::outputs(size_t from, size_t to) {
  if (outputCount() < from || outputCount() > to)
    fail(concat("it has ", from, from == to ? "" : concat(" to ", to), " outputs, found ", outputCount()));
}

Tensor Arguments::resolve(const Operand &operand, std::string_view side, size_t index) {
  if (!first.ok())
    return {};
  std::string place = concat(side, " ", index, " [", absl::StrJoin(operand.shape, ","), "] ");
  if (operand.arena < 0 || static_cast<size_t>(operand.arena) >= context.arenas.size()) {
    fail(concat(place, "lies in arena ", operand.arena, " of ", context.arenas.size()));
    return {};
  }
  const DeviceMemory *memory = context.arenas[static_cast<size_t>(operand.arena)];
  // A bound that no real tensor reaches keeps every later product of sizes inside 64 bits.
  constexpr int64_t most = int64_t{1} << 42;
  int64_t count = 1;
  for (int64_t size : operand.shape) {
    if (size < 0 || size > most || (size > 0 && count > most / size)) {
      fail(concat(place, "has a size outside 0 .. 2^42"));
      return {};
    }
    count *= size;
  }
  const uint64_t bytes = static_cast<uint64_t>(count * elementSize(operand.type));
  if (operand.offset % 64 != 0) {
    fail(concat(place, "starts at ", operand.offset, ", not a multiple of 64"));
    return {};
  }
  if (operand.offset > memory->bytes() || bytes > memory->bytes() - operand.offset) {
    fail(concat(place, "needs bytes ", operand.offset, " .. ", operand.offset + bytes, " of an arena of ",
                memory->bytes()));
    return {};
  }
  return {operand.type, operand.shape, count, memory->address() + operand.offset};
}

Tensor Arguments::typed(Tensor tensor, ElementType type, std::string_view side, size_t index) {
  if (first.ok() && tensor.type != type) {
    fail(concat(side, " ", index, " must be ", elementTypeName(type), ", found ",
                elementTypeName(tensor.type)));
    return {};
  }
  return tensor;
}

Tensor Arguments::anyInput(size_t index) {
  if (index >= inputCount())
    fail(concat("input ", index, " is absent"));
  return first.ok() ? resolve(context.command.inputs[index], "input", index) : Tensor{};
}

Tensor Arguments::anyOutput(size_t index) {
  if (index >= outputCount())
    fail(concat("output ", index, " is absent"));
  return first.ok() ? resolve(context.command.outputs[index], "output", index) : Tensor{};
}

Tensor Arguments::input(size_t index, ElementType type) {
  return typed(anyInput(index), type, "input", index);
}

Tensor Arguments::output(size_t index, ElementType type) {
  return typed(anyOutput(index), type, "output", index);
}

int64_t Arguments::integer(std::string_view name, int64_t least, int64_t most) {
  StatusOr<int64_t> value = context.command.integer(name);
  if (!value.ok()) {
    if (first.ok())
      first = value.status();
    return least;
  }
  if (*value < least || *value > most) {
    fail(concat("attribute '", name, "' must lie in ", least, " .. ", most, ", found ", *value));
    return least;
  }
  return *value;
}

bool Arguments::flag(std::string_view name) {
  for (const CommandAttribute &attribute : context.command.attributes)
    if (attribute.name == name)
      return integer(name, 0, 1) == 1;
  return false;
}

double Arguments::number(std::string_view name) {
  StatusOr<double> value = context.command.number(name);
  if (!value.ok() && first.ok())
    first = value.status();
  return value.ok() ? *value : 0.0;
}

std::vector<double> Arguments::numbers(std::string_view name) {
  std::vector<double> list;
  const auto &attributes = context.command.attributes;
  if (std::none_of(attributes.begin(), attributes.end(), [&](const auto &a) { return a.name == name; }))
    return list;
  const std::string all = text(name);
  for (const char *at = all.c_str(); ok();) {
    char *end = nullptr;
    list.push_back(std::strtod(at, &end));
    if (end == at || !std::isfinite(list.back()) || (*end != ',' && *end != '\0'))
      fail(concat("attribute '", name, "' must be finite numbers with commas between, found '", all, "'"));
    if (*end != ',')
      break;
    at = end + 1;
  }
  return list;
}

std::string Arguments::text(std::string_view name) {
  StatusOr<std::string> value = context.command.text(name);
  if (!value.ok() && first.ok())
    first = value.status();
  return value.ok() ? *value : std::string();
}

std::string Arguments::textOr(std::string_view name, std::string_view fallback) const {
  StatusOr<std::string> value = context.command.text(name);
  return value.ok() ? *value : std::string(fallback);
}

void Arguments::unsupported(std::initializer_list<std::string_view> names) {
  for (const CommandAttribute &attribute : context.command.attributes)
    for (std::string_view name : names)
      if (attribute.name == name && attribute.value != decltype(attribute.value)(int64_t{0}) &&
          attribute.value != decltype(attribute.value)(0.0) &&
          attribute.value != decltype(attribute.value)(std::string()) && first.ok())
        first = failure("command ", context.command.kind, " of '", context.command.origin,
                        "': this device's kernel does not know '", name, "' yet; use --device cpu");
}

void Arguments::shape(const Tensor &tensor, std::initializer_list<int64_t> expected, std::string_view name) {
  if (first.ok() && !std::equal(expected.begin(), expected.end(), tensor.shape.begin(), tensor.shape.end()))
    fail(concat(name, " must have shape [", absl::StrJoin(expected, ","), "], found [",
                absl::StrJoin(tensor.shape, ","), "]"));
}

void Arguments::elements(const Tensor &tensor, int64_t expected, std::string_view name) {
  if (first.ok() && tensor.elements != expected)
    fail(concat(name, " must have ", expected, " elements, found [", absl::StrJoin(tensor.shape, ","), "]"));
}

} // namespace sluice
