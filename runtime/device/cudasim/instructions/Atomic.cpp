// atom and red: read, change and write one place in one step.
#include "runtime/device/cudasim/execute/Access.h"
#include "runtime/device/cudasim/instructions/MemoryModifiers.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace sluice::cudasim {

namespace {

template <typename T> T addTo(T old, T value, T) {
  return static_cast<T>(old + value);
}
template <typename T> T least(T old, T value, T) {
  return std::min(old, value);
}
template <typename T> T greatest(T old, T value, T) {
  return std::max(old, value);
}
template <typename T> T bitAnd(T old, T value, T) {
  return old & value;
}
template <typename T> T bitOr(T old, T value, T) {
  return old | value;
}
template <typename T> T bitXor(T old, T value, T) {
  return old ^ value;
}
template <typename T> T exchangeWith(T, T value, T) {
  return value;
}
/// Operands are compare, then swap.
template <typename T> T compareAndSwap(T old, T expected, T value) {
  return old == expected ? value : old;
}
uint32_t increment(uint32_t old, uint32_t bound, uint32_t) {
  return old >= bound ? 0 : old + 1;
}
uint32_t decrement(uint32_t old, uint32_t bound, uint32_t) {
  return old == 0 || old > bound ? bound : old - 1;
}
/// Denormals are kept: PTX flushes them in global memory only, which no result of ours may depend on.
float addFloat(float old, float value, float) {
  return old + value;
}

/// rows: result, address, operand, second operand.
template <typename T, T (*Function)(T, T, T)> void runAtomic(Warp &warp, const Op &op, uint32_t mask) {
  LanePointers lanes;
  resolve(warp, op, op.rows[1], mask, sizeof(T), lanes);
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  // Lanes go one after the other; other blocks may run on other threads of the host.
  forLanes(lanes.lanes, [&](uint32_t lane) {
    std::atomic_ref<Bits> place(*reinterpret_cast<Bits *>(lanes.pointers[lane]));
    const T first = warp.row<T>(op.rows[2])[lane];
    const T second = op.rows[3] == kNoRow ? T{} : warp.row<T>(op.rows[3])[lane];
    Bits old = place.load(std::memory_order_relaxed);
    Bits fresh;
    do
      fresh = std::bit_cast<Bits>(Function(std::bit_cast<T>(old), first, second));
    while (!place.compare_exchange_weak(old, fresh, std::memory_order_relaxed));
    if (op.rows[0] != kNoRow)
      warp.row<T>(op.rows[0])[lane] = std::bit_cast<T>(old);
  });
}

struct AtomicRow {
  std::string_view name; // operation and type
  Handler handler;
  uint8_t bytes;
  uint8_t operands; // without result and address
  bool commutes;
};

constexpr AtomicRow kAtomics[] = {
    {"add.u32", &runAtomic<uint32_t, addTo>, 4, 1, true},
    {"add.s32", &runAtomic<uint32_t, addTo>, 4, 1, true},
    {"add.u64", &runAtomic<uint64_t, addTo>, 8, 1, true},
    {"add.s64", &runAtomic<uint64_t, addTo>, 8, 1, true},
    {"add.f32", &runAtomic<float, addFloat>, 4, 1, false},
    {"add.f64", &runAtomic<double, addTo>, 8, 1, false},
    {"min.u32", &runAtomic<uint32_t, least>, 4, 1, true},
    {"min.s32", &runAtomic<int32_t, least>, 4, 1, true},
    {"min.u64", &runAtomic<uint64_t, least>, 8, 1, true},
    {"min.s64", &runAtomic<int64_t, least>, 8, 1, true},
    {"max.u32", &runAtomic<uint32_t, greatest>, 4, 1, true},
    {"max.s32", &runAtomic<int32_t, greatest>, 4, 1, true},
    {"max.u64", &runAtomic<uint64_t, greatest>, 8, 1, true},
    {"max.s64", &runAtomic<int64_t, greatest>, 8, 1, true},
    {"and.b32", &runAtomic<uint32_t, bitAnd>, 4, 1, true},
    {"and.b64", &runAtomic<uint64_t, bitAnd>, 8, 1, true},
    {"or.b32", &runAtomic<uint32_t, bitOr>, 4, 1, true},
    {"or.b64", &runAtomic<uint64_t, bitOr>, 8, 1, true},
    {"xor.b32", &runAtomic<uint32_t, bitXor>, 4, 1, true},
    {"xor.b64", &runAtomic<uint64_t, bitXor>, 8, 1, true},
    {"exch.b32", &runAtomic<uint32_t, exchangeWith>, 4, 1, false},
    {"exch.b64", &runAtomic<uint64_t, exchangeWith>, 8, 1, false},
    {"cas.b32", &runAtomic<uint32_t, compareAndSwap>, 4, 2, false},
    {"cas.b64", &runAtomic<uint64_t, compareAndSwap>, 8, 2, false},
    {"inc.u32", &runAtomic<uint32_t, increment>, 4, 1, false},
    {"dec.u32", &runAtomic<uint32_t, decrement>, 4, 1, false},
};

Status decodeAtomic(Decoder &decoder, const ptx::Instruction &instruction) {
  const bool returns = instruction.opcode == "atom";
  const MemoryModifiers modifiers = parseMemoryModifiers(instruction);
  std::string name;
  for (const std::string &other : modifiers.others)
    name += (name.empty() ? "" : ".") + other;
  const AtomicRow *row = std::find_if(std::begin(kAtomics), std::end(kAtomics),
                                      [&](const AtomicRow &candidate) { return candidate.name == name; });
  if (row == std::end(kAtomics) || modifiers.elements != 1 || modifiers.space == AddressSpace::Local ||
      modifiers.space == AddressSpace::Param)
    return decoder.unsupported(instruction);
  const size_t first = returns ? 1 : 0;
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, first + 1 + row->operands));
  uint32_t result = kNoRow, operands[2] = {kNoRow, kNoRow};
  if (returns && instruction.operands[0].kind != ptx::Operand::Kind::Sink) {
    SLUICE_ASSIGN_OR_RETURN(result, decoder.destination(instruction, instruction.operands[0], row->bytes));
  }
  const char type = name.find(".f32") != std::string::npos   ? 'f'
                    : name.find(".f64") != std::string::npos ? 'd'
                                                             : 'w';
  for (size_t i = 0; i < row->operands; ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        operands[i], decoder.source(instruction, instruction.operands[first + 1 + i], row->bytes, type));
  }
  Op access;
  access.space = modifiers.space;
  SLUICE_RETURN_IF_ERROR(decoder.address(instruction, instruction.operands[first], access, 1));
  Op &op = decoder.emit(instruction, OpKind::Memory);
  op.handler = row->handler;
  op.space = access.space;
  op.offset = access.offset;
  op.addressBytes = access.addressBytes;
  op.rows[0] = result;
  op.rows[1] = access.rows[1];
  op.rows[2] = operands[0];
  op.rows[3] = operands[1];
  op.elementBytes = op.registerBytes = row->bytes;
  op.isAtomic = op.isLoad = op.isStore = true;
  op.commutes = row->commutes;
  op.acquires = modifiers.acquires;
  op.releases = modifiers.releases;
  return absl::OkStatus();
}

} // namespace

void addAtomicRows(InstructionTable &table) {
  table.addDecoded("atom", &decodeAtomic);
  table.addDecoded("red", &decodeAtomic);
}

} // namespace sluice::cudasim
