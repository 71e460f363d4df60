// What an executable file says, in plain structures: the compiler fills them, the runtime reads them. The
// file format behind it is executable.fbs; nothing here depends on it.
#pragma once

#include "runtime/device/Device.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The meaning of files that this program writes and reads.
inline constexpr uint32_t executableFormatVersion = 1;

/// A dimension's name and its size.
struct DimensionBinding {
  std::string name;
  int64_t value = 0;
};

/// What a state tensor is for. `State` is kept and saved but belongs to no optimizer (a router's bias, a
/// mask).
enum class TensorRole : uint8_t { Parameter, Gradient, ExpAvg, ExpAvgSq, State };
std::string_view tensorRoleName(TensorRole role);

/// How long the contents of an arena live.
enum class ArenaClass : uint8_t { Parameters, Gradients, Optimizer, Activations, Io };
std::string_view arenaClassName(ArenaClass lifetime);

/// A stretch of device memory, allocated once and zero at the start.
struct ArenaDescription {
  std::string name;
  uint64_t bytes = 0;
  ArenaClass lifetime = ArenaClass::Activations;
};

/// A tensor that lives as long as the session.
struct StateTensor {
  std::string name; // unique, e.g. "layers.0.attn.wq", its gradient "layers.0.attn.wq/gradient"
  TensorRole role = TensorRole::Parameter;
  std::string parameter; // for a gradient or moment: the parameter's name; its shape is the parameter's
  Operand place;         // type, shape, arena, offset
  std::string
      checkpointName; // of a parameter: its name in a weight file; "{expert}" splits the first dimension
  bool decay = false; // of a parameter: weight decay applies
  // In kept form `place` holds only the values that a mask keeps, in row-major order.
  std::string mask;                // the state with the mask's bits; empty: `place` holds the whole tensor
  std::vector<int64_t> wholeShape; // of the whole tensor, in kept form

  /// Sizes, elements and bytes of the whole tensor, as files hold it.
  const std::vector<int64_t> &shape() const { return mask.empty() ? place.shape : wholeShape; }
  int64_t elements() const;
  uint64_t bytes() const;
};

/// State that is a function of a parameter: "packed" or "bf16".
struct DerivedStateDescription {
  std::string name, parameter, kind;
};

/// An operand that the host writes (input) or reads (output) by name.
struct NamedOperand {
  std::string name;
  Operand operand;
};

/// A function that the host can run.
struct EntryPoint {
  std::string name;
  std::vector<DimensionBinding> bindings; // where they differ from the executable's
  std::vector<NamedOperand> inputs, outputs;
  std::vector<Command> commands;
  std::vector<std::string>
      flops; // executed operations of each command, decimal; empty or as long as `commands`
};

/// Generated code for one target.
struct KernelImageDescription {
  std::string target;               // "cpu:x86-64-v3", "cuda:sm_90a"
  std::string image;                // object file, cubin or PTX
  std::string source;               // what it was generated from; may be empty
  std::vector<std::string> kernels; // names of the kernels inside
};

/// Everything an executable file holds.
struct ExecutableDescription {
  uint32_t formatVersion = executableFormatVersion;
  std::string producer; // "sluice 0.1.0"
  std::string model;
  std::vector<DimensionBinding> bindings;
  std::vector<std::string> targets;
  std::string training;    // JSON object, or empty
  std::string modelConfig; // JSON object, or empty
  std::vector<ArenaDescription> arenas;
  std::vector<StateTensor> tensors;
  std::vector<DerivedStateDescription> derived;
  std::vector<EntryPoint> entries;
  std::vector<KernelImageDescription> kernels;
  std::string ledger; // JSON object, or empty

  /// The entry point of that name, or null.
  const EntryPoint *entry(std::string_view name) const;
  /// The state tensor of that name, or null.
  const StateTensor *tensor(std::string_view name) const;
};

/// A loaded executable: the description, and the file it came from.
struct Executable {
  ExecutableDescription description;
  std::string sha256; // of the file with its hash field zero, 64 hex digits: the executable's identity
  std::string bytes;  // the whole file, so that a run folder can keep it
};

/// The file as bytes. The same description gives the same bytes.
std::string serializeExecutable(const ExecutableDescription &description);

/// Reads a file's bytes: FlatBuffers verifier, hash, version, then checkExecutable. `place` names the file in
/// messages. Any damage is a badInputError of one line.
StatusOr<Executable> parseExecutable(std::string bytes, const std::string &place);

/// parseExecutable of a file. A path that cannot be read is a usageError.
StatusOr<Executable> loadExecutable(const std::string &path);

/// The rules that the verifier does not know: indices, ranges inside arenas, alignment (64), shape products
/// without overflow, dependencies on earlier commands only, unique names, enumerators, state tensors that do
/// not overlap, moments that fit their parameter, JSON texts that parse. The first violation, as a
/// badInputError.
Status checkExecutable(const ExecutableDescription &description, const std::string &place);

} // namespace sluice
