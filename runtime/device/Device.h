// What the executor knows of a device: memory, and programs made of commands. Nothing here says which device.
//
// Commands have three stages. *prepare* picks algorithms, creates primitives and loads kernels, and may
// allocate; *execute* runs the whole program and allocates nothing. Between them nothing happens on the host:
// a device may record the program once and replay it.
#pragma once

#include "absl/types/span.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice {

struct MaskPattern;

enum class ElementType : uint8_t { F32, F64, BF16, I32, I64, U8 };

/// Bytes of one element.
int64_t elementSize(ElementType type);
std::string_view elementTypeName(ElementType type);

/// One tensor of a command: dense, row-major, at a fixed place in an arena.
struct Operand {
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  int arena = -1;      // index into Device memory handed to prepare
  uint64_t offset = 0; // bytes from the arena's start, a multiple of 64

  int64_t elements() const;
  uint64_t bytes() const { return static_cast<uint64_t>(elements() * elementSize(type)); }
};

/// A named number or text that configures a command.
struct CommandAttribute {
  std::string name;
  std::variant<int64_t, double, std::string> value;
};

/// One command as the plan wrote it. `kind` names a kernel of the device's library ("gemm",
/// "attention_forward",
/// ...; docs/commands.md lists them) or "launch" for a generated kernel, named by the attribute "kernel".
struct Command {
  std::string kind;
  std::string origin; // path of the model's op, for messages, metrics and profiles
  std::vector<Operand> inputs, outputs;
  std::vector<CommandAttribute> attributes;
  std::vector<uint32_t> dependencies; // earlier commands of the program that must have finished

  /// The attribute's value; an error that names the command when it is absent or of another type.
  StatusOr<int64_t> integer(std::string_view name) const;
  StatusOr<double> number(std::string_view name) const;
  StatusOr<std::string> text(std::string_view name) const;
  int64_t integerOr(std::string_view name, int64_t fallback) const;
  double numberOr(std::string_view name, double fallback) const;
  /// Bytes of the inputs (outputs), each place once: what a command that is bound by memory reads (writes).
  uint64_t inputBytes() const;
  uint64_t outputBytes() const;
};

/// Memory of a device. Contents start as zero. Freed on destruction.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  virtual uint64_t bytes() const = 0;
  /// The first byte, in the device's address space: the host may follow it on the CPU only.
  virtual std::byte *address() const = 0;
  /// Copies between the host and this memory; synchronous. Errors: range outside the memory.
  virtual Status write(uint64_t offset, const void *source, uint64_t size) = 0;
  virtual Status read(uint64_t offset, void *target, uint64_t size) const = 0;
};

/// A prepared list of commands.
class DeviceProgram {
public:
  virtual ~DeviceProgram() = default;
  /// Runs every command once, in an order that respects the dependencies; reading memory waits for it.
  virtual Status execute() = 0;
  /// Runs command `index` alone (for debuggers: `sluice exec --bisect`). Commands before it must have run.
  virtual Status executeCommand(size_t index) = 0;
};

/// Generated code for a device, as stored in an executable.
struct KernelImage {
  std::string target; // "cpu:x86-64-v3", "cuda:sm_90a"
  std::string_view bytes;
};

class DeviceSequence;
struct SequenceStep;

class Device {
public:
  virtual ~Device() = default;
  /// "cpu", "cuda:0", ...
  virtual std::string name() const = 0;
  /// Bytes that allocate() can still give, about; 0 when the device cannot tell.
  virtual uint64_t availableMemory() const { return 0; }
  virtual StatusOr<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) = 0;
  /// A sequence (runtime/device/Sequence.h) of this device's memories and programs, which must outlive it,
  /// with `roomBytes` bytes on the host; `name` says in errors what it is ("a training step"). This device
  /// runs the steps one by one, which is right where programs have finished when execute returns. Errors
  /// (failure): a copy outside of its memory or of the room.
  virtual StatusOr<std::unique_ptr<DeviceSequence>>
  createSequence(std::string name, absl::Span<const SequenceStep> steps, uint64_t roomBytes);
  /// Loads generated kernels; later commands of kind "launch" find them by name. Errors: the host lacks a
  /// feature that the image needs, the ABI version differs, the image is damaged.
  virtual Status loadKernels(const KernelImage &image) = 0;
  /// Prepares `commands` over `arenas` (indexed by Operand::arena; they must outlive the program).
  /// All unknown kinds and all missing kernels are listed in one error.
  virtual StatusOr<std::unique_ptr<DeviceProgram>> prepare(absl::Span<const Command> commands,
                                                           absl::Span<DeviceMemory *const> arenas) = 0;
  /// Tells the device that the host has written into parameters, so that derived state (packed weights) is
  /// stale.
  virtual Status refreshDerivedState() = 0;
  /// Device memory that a program of these commands takes beside arenas of these sizes, at most; 0 where the
  /// device's programs take none of the memory that availableMemory counts. Errors: as prepare.
  virtual StatusOr<uint64_t> workspaceBytes(absl::Span<const Command> commands,
                                            absl::Span<const uint64_t> arenaBytes) const;
  /// Whether products under a mask of this pattern skip its zeros; the second argument says whether the mask
  /// keeps at most `skip_at_most` weights of a matrix.
  virtual bool skipsMaskedZeros(const MaskPattern &, bool /*fewEnough*/) const { return false; }
  /// What the device chose when it prepared programs and what results may depend on, a line each: the
  /// algorithm of each product that a library computes.
  virtual std::vector<std::string> choices() const { return {}; }
};

} // namespace sluice
