// A kernel made ready to run: registers are rows of 32 lanes at fixed offsets, names and labels are resolved,
// every instruction knows its handler.
#pragma once

#include "runtime/device/cudasim/ptx/Module.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cudasim {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = ~uint32_t(0);
constexpr uint32_t kNoRow = ~uint32_t(0);
constexpr uint32_t kNoOp = ~uint32_t(0);

struct Warp;
struct Op;
struct Exchange;

/// Runs one instruction for the lanes in `mask`, at least one.
using Handler = void (*)(Warp &warp, const Op &op, uint32_t mask);
/// Computes a warp-wide instruction once all of its `lanes` have come.
using ExchangeFunction = void (*)(Exchange &exchange, uint32_t lanes);

enum class OpKind : uint8_t {
  Plain,
  Memory,     // may end the launch with an illegal access
  Branch,     // to `target`, for the lanes whose guard holds
  Exit,       // the lanes end
  Barrier,    // meets the other warps of the block
  Collective, // meets the other lanes of the warp that its mask names
  Trap,
};

enum class AddressSpace : uint8_t { Generic, Global, Shared, Local, Param };

enum class Rounding : uint8_t { Nearest, Zero, Down, Up };

/// What a barrier does besides waiting.
enum class BarrierAction : uint8_t { Sync, Arrive, CountTrue, AllTrue, AnyTrue };

/// One decoded instruction. Rows are byte offsets into a warp's register file: a predicate is a 32-bit mask,
/// a 16-, 32- or 64-bit register 32 values side by side. rows[0] is the destination where there is one.
struct Op {
  Handler handler = nullptr;
  ExchangeFunction exchange = nullptr;
  std::array<uint32_t, 14> rows;
  int64_t offset = 0; // added to an address
  uint32_t guard = kNoRow;
  uint32_t target = kNoOp; // of a branch
  uint32_t join = kNoOp;   // where the two ways of a branch meet again; kNoOp: nowhere
  OpKind kind = OpKind::Plain;
  bool guardNegated = false;
  AddressSpace space = AddressSpace::Generic;
  uint8_t addressBytes = 0; // width of the address row
  uint8_t elementBytes = 0; // of one element in memory
  uint8_t elements = 1;     // of a vector access
  uint8_t registerBytes = 0, sourceBytes = 0;
  BarrierAction barrier = BarrierAction::Sync;
  Rounding rounding = Rounding::Nearest;
  bool flushDenormals = false, saturate = false, signExtend = false;
  bool isStore = false, isLoad = false, isAtomic = false, isVolatile = false;
  bool releases = false, acquires = false;
  bool commutes = false;                  // an atomic whose order does not show in memory
  uint8_t sourceType = 0, resultType = 0; // of a conversion
  int line = 0;                           // of the PTX
  int sourceFile = 0, sourceLine = 0;

  Op() { rows.fill(kNoRow); }
};

/// Registers that the hardware fills.
enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Lane,
  WarpIndex,
  WarpCount,
  Multiprocessor,
  MultiprocessorCount,
  GridId,
  LanesEqual,
  LanesBelow,
  LanesUpTo,
  LanesAbove,
  LanesFrom,
  DynamicSharedBytes,
  TotalSharedBytes,
};

struct SpecialRow {
  Special special;
  uint32_t row;
  uint8_t bytes;
};

struct ConstantRow {
  uint32_t row;
  uint8_t bytes; // 2, 4 or 8; 0: a predicate
  uint64_t value;
};

struct Parameter {
  uint32_t offset, bytes;
};

struct Kernel {
  std::string name;
  std::string file; // of the PTX, for messages
  std::vector<std::pair<int, std::string>> sourceFiles;
  std::vector<Op> ops;            // the last is an Exit
  std::vector<std::string> texts; // one per op: "add.rn.f32"
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  uint32_t rowBytes = 0; // of a warp's register file
  std::vector<ConstantRow> constants;
  std::vector<SpecialRow> specials;
  uint32_t sharedBytes = 0; // static, the dynamic part begins after it
  uint32_t localBytes = 0;  // of a thread
  uint32_t constBytes = 0;
  uint32_t registers = 0; // 32-bit registers named in the PTX; ptxas needs other numbers
  uint32_t maxThreads[3] = {0, 0, 0}, requiredThreads[3] = {0, 0, 0};
  /// Blocks must run one after the other, since their order shows: an atomic returns what it found, adds
  /// floats, or a flag is awaited.
  bool ordered = false;

  /// "kernel.cu:12" when the module has source lines, else "module.ptx:345".
  std::string place(const Op &op) const;
};

} // namespace sluice::cudasim
