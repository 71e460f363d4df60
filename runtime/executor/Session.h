// A compiled model in a device's memory: state by name, inputs and outputs by name, entry points to run.
#pragma once

#include "runtime/device/Sequence.h"
#include "runtime/schema/ExecutableDescription.h"

#include "absl/types/span.h"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class KeptRange;

struct SessionOptions {
  /// Bytes that the plan may take; 0: what the device says it has.
  uint64_t memoryLimit = 0;
};

/// Runs the entry points of one executable. Not thread-safe. Once an entry point has run, running it again,
/// setting inputs, getting outputs and moving state allocate nothing.
class Session {
public:
  /// Checks the plan, with the device's workspaces, against the memory limit, allocates the arenas (all zero)
  /// and loads the first kernel image for `device` that it takes: the file lists them by preference. The
  /// executable and the device must outlive the session. Errors: usageError with the plan's table when it
  /// does not fit; the device's own errors.
  static StatusOr<Session> create(const Executable &executable, Device &device, SessionOptions options = {});

  Session(Session &&) = default;
  ~Session();

  const ExecutableDescription &description() const { return *model; }
  bool has(std::string_view entry) const { return model->entry(entry) != nullptr; }

  /// Prepares the entry point's commands; happens by itself at the first run.
  Status prepare(std::string_view entry);
  /// Runs the entry point's commands; a device may still be at it when this returns. Reading outputs or state
  /// waits for it.
  Status run(std::string_view entry);
  /// Runs command `index` of the entry point alone, for debuggers. The commands before it must have run.
  Status runCommand(std::string_view entry, size_t index);

  /// Copies `values` to an input. Errors: no such entry point or input, another element type or number of
  /// elements.
  template <typename T>
  Status setInput(std::string_view entry, std::string_view input, absl::Span<const T> values) {
    return writeNamed(entry, input, elementTypeOf<T>(), values.data(), values.size());
  }
  /// Copies an output to `values`, whose size must be the output's number of elements.
  template <typename T>
  Status getOutput(std::string_view entry, std::string_view output, absl::Span<T> values) const {
    return readNamed(entry, output, elementTypeOf<T>(), values.data(), values.size());
  }
  /// The only element of an output. Errors as getOutput.
  StatusOr<float> scalarOutput(std::string_view entry, std::string_view output) const;

  /// Steps of a sequence, for work that is done over and over: an input from byte `at` of its room, with the
  /// errors of setInput for `count` values; an entry point, prepared; an output to byte `at`. Errors: no such
  /// entry point or name.
  template <typename T>
  StatusOr<SequenceStep> copyIn(std::string_view entry, std::string_view input, size_t count,
                                uint64_t at) const {
    return copyNamed(entry, input, elementTypeOf<T>(), count, at);
  }
  /// As Device::skipsMaskedZeros.
  bool skipsMaskedZeros(const MaskPattern &pattern, bool fewEnough) const {
    return device->skipsMaskedZeros(pattern, fewEnough);
  }
  StatusOr<SequenceStep> execution(std::string_view entry);
  StatusOr<SequenceStep> copyOut(std::string_view entry, std::string_view output, uint64_t at) const;
  /// A sequence of such steps, which the session must outlive; errors as Device::createSequence.
  StatusOr<std::unique_ptr<DeviceSequence>>
  createSequence(std::string name, absl::Span<const SequenceStep> steps, uint64_t roomBytes) {
    return device->createSequence(std::move(name), steps, roomBytes);
  }
  /// Runs a sequence of this session; to be used instead of its own run, which knows nothing of state that
  /// the host has written.
  Status run(DeviceSequence &sequence);

  /// Number of elements of an input or output of an entry point. Errors: no such entry point or name.
  StatusOr<const Operand *> input(std::string_view entry, std::string_view name) const;
  StatusOr<const Operand *> output(std::string_view entry, std::string_view name) const;

  /// Copies `values.size()` elements of an output from element `first` on.
  Status getOutputPart(std::string_view entry, std::string_view output, int64_t first,
                       absl::Span<float> values) const;

  /// Copies what an operand of a command holds now, for debuggers; `size` is operand.bytes().
  Status readOperand(const Operand &operand, void *values, uint64_t size) const;
  /// The other way; derived state of parameters becomes stale, as by writeState.
  Status writeOperand(const Operand &operand, const void *values, uint64_t size);

  /// Copies `size` bytes of a state tensor (row-major, little-endian) from byte `offset` on between the host
  /// and the device. A write makes derived state stale; it is written anew before the next run. A tensor in
  /// kept form is read and written as the whole tensor that it stands for, zeros where its mask does not
  /// keep; so the mask must be written first, and what lies outside it is not stored. Errors: a range outside
  /// the tensor; a mask that keeps more than the tensor holds (bad input).
  Status readState(const StateTensor &tensor, uint64_t offset, void *bytes, uint64_t size) const;
  Status writeState(const StateTensor &tensor, uint64_t offset, const void *bytes, uint64_t size);
  /// The whole tensor; `size` must be its size in bytes.
  Status readState(const StateTensor &tensor, void *bytes, uint64_t size) const;
  /// The whole tensor by name. Errors: no such tensor, another size.
  StatusOr<std::string> readState(std::string_view name) const;
  Status writeState(std::string_view name, std::string_view bytes);

  /// Runs entry point "init" with `seed`: every state tensor gets its initial value.
  Status initialize(int64_t seed);

private:
  Session() = default;
  template <typename T> static constexpr ElementType elementTypeOf();
  StatusOr<size_t> find(std::string_view entry) const;
  /// Makes the entry point ready to run: prepared, derived state fresh.
  StatusOr<DeviceProgram *> ready(std::string_view entry);
  Status refreshDerivedState();
  /// What a range of the whole tensor is in kept form.
  StatusOr<KeptRange> keptRange(const StateTensor &tensor, uint64_t offset, uint64_t size) const;
  Status checkOperand(const Operand &operand, uint64_t size) const;
  StatusOr<SequenceStep> copyNamed(std::string_view entry, std::string_view input, ElementType type,
                                   size_t count, uint64_t at) const;
  Status writeNamed(std::string_view entry, std::string_view input, ElementType type, const void *values,
                    size_t count);
  Status readNamed(std::string_view entry, std::string_view output, ElementType type, void *values,
                   size_t count) const;

  const ExecutableDescription *model = nullptr;
  Device *device = nullptr;
  std::vector<std::unique_ptr<DeviceMemory>> arenas;
  std::vector<DeviceMemory *> arenaPointers;
  std::vector<std::unique_ptr<DeviceProgram>>
      programs; // by entry point, null until prepared; destroyed before arenas
  bool derivedStale = true;
};

template <typename T> constexpr ElementType Session::elementTypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return ElementType::F32;
  else if constexpr (std::is_same_v<T, double>)
    return ElementType::F64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return ElementType::I32;
  else {
    static_assert(std::is_same_v<T, int64_t>, "inputs and outputs are f32, f64, i32 or i64");
    return ElementType::I64;
  }
}

} // namespace sluice
