// Checked access to a command's operands and attributes. Commands come from a file and are never trusted:
// every range, shape and attribute is checked here before a kernel sees a pointer.
#pragma once

#include "runtime/device/Device.h"

#include <cstddef>
#include <initializer_list>

namespace sluice {

/// A checked operand. Empty (no data, no dimensions) after an error.
struct Tensor {
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  std::byte *data = nullptr; // in the device's address space; the host may follow it on the CPU only

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  /// Dimension i; negative counts from the end; 0 where there is none.
  int64_t dim(int64_t i) const;
  /// Product of all dimensions but the last.
  int64_t rows() const;
  float *f32() const { return reinterpret_cast<float *>(data); }
  int32_t *i32() const { return reinterpret_cast<int32_t *>(data); }
  template <typename Element> Element *as() const { return reinterpret_cast<Element *>(data); }
};

/// The command that is being prepared, and the memory that its operands lie in.
struct CommandContext {
  const Command &command;
  absl::Span<DeviceMemory *const> arenas;
};

/// Reads a command; remembers the first error, after which all reads give empty values.
class Arguments {
public:
  explicit Arguments(const CommandContext &context) : context(context) {}

  /// Numbers of operands: exactly, or from .. to.
  void inputs(size_t from, size_t to);
  void inputs(size_t count) { inputs(count, count); }
  void outputs(size_t from, size_t to);
  void outputs(size_t count) { outputs(count, count); }
  size_t inputCount() const { return context.command.inputs.size(); }
  size_t outputCount() const { return context.command.outputs.size(); }

  Tensor input(size_t index, ElementType type = ElementType::F32);
  Tensor output(size_t index, ElementType type = ElementType::F32);
  Tensor anyInput(size_t index);
  Tensor anyOutput(size_t index);

  int64_t integer(std::string_view name, int64_t least, int64_t most);
  /// A flag: 0 or 1, 0 when absent.
  bool flag(std::string_view name);
  double number(std::string_view name);
  std::string text(std::string_view name);
  /// The text, or `fallback` where there is none.
  std::string textOr(std::string_view name, std::string_view fallback) const;
  int64_t integerOr(std::string_view name, int64_t fallback) const {
    return context.command.integerOr(name, fallback);
  }
  double numberOr(std::string_view name, double fallback) const {
    return context.command.numberOr(name, fallback);
  }
  /// A list of finite numbers, "0.5,0.25"; empty when absent.
  std::vector<double> numbers(std::string_view name);

  /// Records an error that the device does not know these attributes if one of them is there with another
  /// value than 0 or "".
  void unsupported(std::initializer_list<std::string_view> names);

  /// Records an error that the device's kernel has this limit unless it is kept.
  void supported(bool kept, std::string_view limit);
  /// Records an error naming the rule unless it holds.
  void require(bool holds, std::string_view rule);
  /// The tensor has exactly this shape.
  void shape(const Tensor &tensor, std::initializer_list<int64_t> expected, std::string_view name);
  /// The tensor has this many elements, in any shape.
  void elements(const Tensor &tensor, int64_t expected, std::string_view name);

  bool ok() const { return first.ok(); }
  const Status &status() const { return first; }

private:
  Tensor resolve(const Operand &operand, std::string_view side, size_t index);
  Tensor typed(Tensor tensor, ElementType type, std::string_view side, size_t index);
  void fail(const std::string &rule);

  const CommandContext &context;
  Status first;
};

} // namespace sluice
