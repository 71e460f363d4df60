// The list of simulated instructions, as data: one row an instruction. docs/cuda-simulator.md says how to add
// one.
#pragma once

#include "runtime/device/cudasim/program/Program.h"
#include "runtime/support/Status.h"

#include "absl/container/flat_hash_map.h"

#include <string>
#include <string_view>

namespace sluice::cudasim {

class Decoder;

/// Decodes an instruction whose operands or modifiers need more than a signature.
using DecodeFunction = Status (*)(Decoder &decoder, const ptx::Instruction &instruction);

/// An instruction whose whole name ("add.rn.f32") fixes its operands. The signature names them in order,
/// destination first: p predicate, h 16 bits, w 32 bits, q 64 bits, f float32, d float64.
struct PlainRow {
  std::string signature;
  Handler handler = nullptr;
  Rounding rounding = Rounding::Nearest;
  bool flushDenormals = false, saturate = false;
};

class InstructionTable {
public:
  /// The table of this machine: handlers use AVX2 and FMA where the processor has them.
  static const InstructionTable &get();

  void addPlain(std::string name, PlainRow row) { plain[std::move(name)] = std::move(row); }
  void addDecoded(std::string_view opcode, DecodeFunction decode) { decoded[std::string(opcode)] = decode; }

  const PlainRow *findPlain(std::string_view name) const {
    auto found = plain.find(std::string(name));
    return found == plain.end() ? nullptr : &found->second;
  }
  DecodeFunction findDecoded(std::string_view opcode) const {
    auto found = decoded.find(std::string(opcode));
    return found == decoded.end() ? nullptr : found->second;
  }

private:
  absl::flat_hash_map<std::string, PlainRow> plain;
  absl::flat_hash_map<std::string, DecodeFunction> decoded;
};

/// The parts of the table, one file each in instructions/.
void addIntegerRows(InstructionTable &table);
void addFloatRows(InstructionTable &table);
void addCompareRows(InstructionTable &table);
void addConversionRows(InstructionTable &table);
void addMoveRows(InstructionTable &table);
void addMemoryRows(InstructionTable &table);
void addAtomicRows(InstructionTable &table);
void addWarpRows(InstructionTable &table);
void addControlRows(InstructionTable &table);

} // namespace sluice::cudasim
