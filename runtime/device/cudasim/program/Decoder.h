// Turns a parsed function into a Kernel. Calls are inlined: a kernel has no call stack.
#pragma once

#include "runtime/device/cudasim/program/InstructionTable.h"
#include "runtime/device/cudasim/program/Program.h"

#include "absl/container/flat_hash_map.h"

#include <functional>
#include <map>

namespace sluice::cudasim {

/// Device address of a module's .global or .const variable, by name.
using SymbolAddresses = absl::flat_hash_map<std::string, uint64_t>;

/// Decodes entry `function` of `module`. Errors (bad input) name file, line and instruction; instructions
/// that are not simulated are listed in one message.
StatusOr<std::shared_ptr<const Kernel>> decodeKernel(const ptx::Module &module, const ptx::Function &function,
                                                     const SymbolAddresses &symbols);

inline uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// The decoder as rows of the instruction table see it; what it makes of operands is in Operands.cpp.
class Decoder {
public:
  Decoder(const ptx::Module &module, const SymbolAddresses &symbols);
  Status decode(const ptx::Function &entry);
  std::shared_ptr<Kernel> finish();

  /// Appends an instruction with the guard and lines of `instruction`.
  Op &emit(const ptx::Instruction &instruction, OpKind kind = OpKind::Plain);
  /// "file:line: instruction 'name': expected ..."
  Status error(const ptx::Instruction &instruction, std::string_view expectation) const;
  /// The error of an instruction without a row; it is collected and decoding goes on.
  Status unsupported(const ptx::Instruction &instruction) const;

  /// Row of a source of `bytes` (0: predicate): register, special register, number or symbol's address.
  StatusOr<uint32_t> source(const ptx::Instruction &, const ptx::Operand &operand, uint32_t bytes,
                            char type = 'w');
  /// Row of a destination register; kNoRow for '_'.
  StatusOr<uint32_t> destination(const ptx::Instruction &, const ptx::Operand &operand, uint32_t bytes);
  /// Row of a register of any width, which is written to `bytes`. A number takes the width in `bytes`.
  StatusOr<uint32_t> anyRegister(const ptx::Instruction &, const ptx::Operand &operand, uint8_t &bytes);
  /// Fills address row `row`, width, offset and, for a parameter, the space of `op`.
  Status address(const ptx::Instruction &, const ptx::Operand &operand, Op &op, uint32_t row);
  /// A new row of `bytes` (0: predicate).
  uint32_t newRow(uint32_t bytes);
  uint32_t constant(uint32_t bytes, uint64_t value);
  /// Bytes of the register named, 0 when the name is no register; predicates count 4.
  uint32_t registerBytes(const ptx::Instruction &, const ptx::Operand &operand) const;
  Status expectOperands(const ptx::Instruction &instruction, size_t count) const;

  Status branch(const ptx::Instruction &instruction, std::string_view label);
  Status leave(const ptx::Instruction &instruction);
  Status call(const ptx::Instruction &instruction);
  void setOrdered() { kernel->ordered = true; }
  /// Whether `bytes` at `offset` lie in the kernel's parameters.
  bool isInParameters(int64_t offset, uint32_t bytes) const {
    return offset >= 0 && offset + bytes <= kernel->parameterBytes;
  }

private:
  struct Place { // where a name lives
    AddressSpace space;
    uint64_t offset;
  };
  /// Scopes may use a name anew (param0 of each call), so the declaration's line belongs to the key.
  static std::string placeKey(const ptx::Variable &variable) {
    return concat(variable.name, "@", variable.line);
  }
  struct Frame { // one inlined function
    const ptx::Function *function;
    int index;
    absl::flat_hash_map<std::string, uint32_t> rows;  // registers, by scope and name
    absl::flat_hash_map<std::string, Place> places;   // variables and parameters
    std::vector<uint32_t> pcs;                        // first op of each instruction
    std::vector<std::pair<uint32_t, uint32_t>> jumps; // op -> instruction
    std::vector<uint32_t> returns;                    // ops that leave the frame
  };

  void markOrderedAtomics();
  Status decodeFrame(Frame &frame);
  Status decodeInstruction(const ptx::Instruction &instruction);
  Status decodePlain(const ptx::Instruction &instruction, const PlainRow &row);
  StatusOr<uint32_t> registerRow(const ptx::Instruction &, std::string_view name, uint32_t bytes);
  StatusOr<Place> placeOf(const ptx::Instruction &, std::string_view name);

  const ptx::Module &module;
  const SymbolAddresses &symbols;
  const InstructionTable &table;
  std::shared_ptr<Kernel> kernel;
  Frame *frame = nullptr;
  int frames = 0;
  int depth = 0;
  uint32_t dynamicAlignment = 1;
  std::vector<uint32_t> dynamicUses; // constants that wait for the start of dynamic shared memory
  absl::flat_hash_map<std::string, Place> sharedPlaces; // module-wide shared variables
  absl::flat_hash_map<std::string, uint32_t> specialRows;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> constantRows;
  std::vector<std::string> missing; // "name (line n)"
  friend StatusOr<std::shared_ptr<const Kernel>> decodeKernel(const ptx::Module &, const ptx::Function &,
                                                              const SymbolAddresses &);
};

} // namespace sluice::cudasim
