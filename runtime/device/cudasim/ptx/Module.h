// A PTX module as it is written: names not resolved, instructions not understood.
#pragma once

#include "absl/container/flat_hash_map.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cudasim::ptx {

enum class Space : uint8_t { Register, Param, Local, Shared, Global, Const };

/// Bytes of a type's value ("f32" is 4, "pred" counts as 4), 0 for an unknown name.
uint32_t typeBytes(std::string_view type);

/// A variable, a parameter or a register.
struct Variable {
  std::string name;
  std::string type; // b8, f32, pred ...
  Space space = Space::Register;
  uint64_t bytes = 0; // 0: an array whose size is given at launch
  uint32_t alignment = 1;
  std::vector<uint8_t> initial; // shorter than `bytes`: the rest is zero
  bool isExternal = false;
  int line = 0;
};

struct Operand {
  enum class Kind : uint8_t { Name, Integer, Float32, Float64, Address, Vector, List, Sink };
  Kind kind = Kind::Sink;
  bool negated = false;          // !%p
  std::string name;              // Name; base of an Address (empty: an absolute address)
  std::string second;            // the predicate of %r1|%p1
  uint64_t bits = 0;             // number; offset of an Address, as a signed value
  std::vector<Operand> elements; // Vector {a, b}; List (a, b); further parts of an Address
};

struct Instruction {
  std::string opcode;                 // "add"
  std::vector<std::string> modifiers; // "rn", "f32"
  std::vector<Operand> operands;
  std::string guard; // register of @%p, empty without
  bool guardNegated = false;
  int scope = 0;
  int line = 0;                       // of the PTX
  int sourceFile = 0, sourceLine = 0; // of the last .loc; 0: none

  /// "add.rn.f32"
  std::string fullName() const;
};

/// Names live in nested scopes; a name is looked for from the inside out.
struct Scope {
  int parent = -1;
  absl::flat_hash_map<std::string, Variable> variables;
  absl::flat_hash_map<std::string, std::pair<Variable, uint32_t>> registerRanges; // %r<count>
  absl::flat_hash_map<std::string, uint32_t> labels;                              // index of the instruction
};

struct Function {
  std::string name;
  bool isEntry = false, hasBody = false;
  std::vector<Variable> results, parameters;
  std::vector<Scope> scopes; // [0] is the body
  std::vector<Instruction> instructions;
  uint32_t maxThreads[3] = {0, 0, 0};      // .maxntid, 0: none given
  uint32_t requiredThreads[3] = {0, 0, 0}; // .reqntid
  int line = 0;

  /// The variable or register that `name` means in `scope`, nullopt when there is none there.
  std::optional<Variable> find(std::string_view name, int scope) const;
  /// The instruction's index that label `name` marks, seen from `scope`.
  std::optional<uint32_t> findLabel(std::string_view name, int scope) const;
};

struct Module {
  std::string file; // name for messages
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  absl::flat_hash_map<int, std::string> sourceFiles; // .file

  const Function *findFunction(std::string_view name) const;
  const Variable *findVariable(std::string_view name) const;
};

} // namespace sluice::cudasim::ptx
