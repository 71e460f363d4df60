// mov in all its forms, address conversions, and the forms of setp and set that combine predicates.
#include "runtime/device/cudasim/execute/Warp.h"
#include "runtime/device/cudasim/memory/AddressMap.h"
#include "runtime/device/cudasim/program/Decoder.h"

#include <cstring>

namespace sluice::cudasim {

namespace {

template <typename T> void copyRow(Warp &warp, const Op &op, uint32_t mask) {
  T *result = warp.row<T>(op.rows[0]);
  const T *source = warp.row<T>(op.rows[1]);
  if (mask == kAllLanes)
    std::memmove(result, source, sizeof(T) * kLanes);
  else
    forLanes(mask, [&](uint32_t lane) { result[lane] = source[lane]; });
}

void copyPredicate(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t &result = warp.predicate(op.rows[0]);
  result = (result & ~mask) | (warp.predicate(op.rows[1]) & mask);
}

void readClock(Warp &warp, const Op &op, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    if (op.registerBytes == 8)
      warp.row<uint64_t>(op.rows[0])[lane] = warp.executed;
    else
      warp.row<uint32_t>(op.rows[0])[lane] = static_cast<uint32_t>(warp.executed);
  });
}

/// rows[0] gets the elements in rows[1..], the first lowest.
void packElements(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t bits = 8 * op.elementBytes;
  forLanes(mask, [&](uint32_t lane) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < op.elements; ++i) {
      const uint32_t row = op.rows[1 + i];
      const uint64_t element =
          op.elementBytes == 4 ? warp.row<uint32_t>(row)[lane] : warp.row<uint16_t>(row)[lane];
      value |= element << (bits * i);
    }
    if (op.registerBytes == 8)
      warp.row<uint64_t>(op.rows[0])[lane] = value;
    else
      warp.row<uint32_t>(op.rows[0])[lane] = static_cast<uint32_t>(value);
  });
}

/// rows[0..elements) get the parts of the last row.
void unpackElements(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t bits = 8 * op.elementBytes;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t source = op.rows[op.elements];
    const uint64_t value =
        op.registerBytes == 8 ? warp.row<uint64_t>(source)[lane] : warp.row<uint32_t>(source)[lane];
    for (uint32_t i = 0; i < op.elements; ++i) {
      if (op.elementBytes == 4)
        warp.row<uint32_t>(op.rows[i])[lane] = static_cast<uint32_t>(value >> (bits * i));
      else
        warp.row<uint16_t>(op.rows[i])[lane] = static_cast<uint16_t>(value >> (bits * i));
    }
  });
}

Status decodePacking(Decoder &decoder, const ptx::Instruction &instruction, uint32_t bytes) {
  const bool unpacks = instruction.operands[0].kind == ptx::Operand::Kind::Vector;
  const std::vector<ptx::Operand> &elements = instruction.operands[unpacks ? 0 : 1].elements;
  if (elements.empty() || elements.size() > 4 || bytes % elements.size() != 0 || bytes / elements.size() < 2)
    return decoder.error(instruction, "2 or 4 elements of at least 16 bits");
  const uint32_t elementBytes = bytes / static_cast<uint32_t>(elements.size());
  std::vector<uint32_t> rows;
  for (const ptx::Operand &element : elements) {
    auto row = unpacks ? decoder.destination(instruction, element, elementBytes)
                       : decoder.source(instruction, element, elementBytes);
    SLUICE_RETURN_IF_ERROR(row.status());
    rows.push_back(*row);
  }
  auto whole = unpacks ? decoder.source(instruction, instruction.operands[1], bytes)
                       : decoder.destination(instruction, instruction.operands[0], bytes);
  SLUICE_RETURN_IF_ERROR(whole.status());
  rows.insert(unpacks ? rows.end() : rows.begin(), *whole);
  Op &op = decoder.emit(instruction);
  op.handler = unpacks ? &unpackElements : &packElements;
  std::copy(rows.begin(), rows.end(), op.rows.begin());
  op.elements = static_cast<uint8_t>(elements.size());
  op.elementBytes = static_cast<uint8_t>(elementBytes);
  op.registerBytes = static_cast<uint8_t>(bytes);
  return absl::OkStatus();
}

Status decodeMove(Decoder &decoder, const ptx::Instruction &instruction) {
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, 2));
  const std::string type = instruction.modifiers.empty() ? "" : instruction.modifiers.back();
  const uint32_t bytes = type == "pred" ? 0 : ptx::typeBytes(type);
  if (instruction.modifiers.size() != 1 || bytes == 1 || bytes > 8 || (bytes == 0 && type != "pred"))
    return decoder.unsupported(instruction);
  using Kind = ptx::Operand::Kind;
  if (instruction.operands[0].kind == Kind::Vector || instruction.operands[1].kind == Kind::Vector)
    return decodePacking(decoder, instruction, bytes);
  SLUICE_ASSIGN_OR_RETURN(const uint32_t result,
                          decoder.destination(instruction, instruction.operands[0], bytes));
  const std::string &name = instruction.operands[1].name;
  if (name == "%clock" || name == "%clock64" || name == "%globaltimer" || name == "%clock_hi" ||
      name == "%globaltimer_lo") {
    Op &op = decoder.emit(instruction);
    op.handler = &readClock;
    op.rows[0] = result;
    op.registerBytes = static_cast<uint8_t>(bytes);
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const uint32_t source, decoder.source(instruction, instruction.operands[1], bytes));
  Op &op = decoder.emit(instruction);
  op.handler = bytes == 0   ? &copyPredicate
               : bytes == 2 ? &copyRow<uint16_t>
               : bytes == 4 ? &copyRow<uint32_t>
                            : &copyRow<uint64_t>;
  op.rows[0] = result;
  op.rows[1] = source;
  return absl::OkStatus();
}

/// cvta.shared.u64 makes a generic address, cvta.to.shared.u64 takes one.
Status decodeAddressConversion(Decoder &decoder, const ptx::Instruction &instruction) {
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, 2));
  const bool from = !instruction.modifiers.empty() && instruction.modifiers[0] == "to";
  const size_t at = from ? 1 : 0;
  if (instruction.modifiers.size() != at + 2 || instruction.modifiers.back() != "u64")
    return decoder.unsupported(instruction);
  const std::string &space = instruction.modifiers[at];
  uint64_t window = 0;
  if (space == "shared" || space == "shared::cta")
    window = kSharedWindow;
  else if (space == "local")
    window = kLocalWindow;
  else if (space == "param" || space == "param::entry")
    window = kParamWindow;
  else if (space != "global" && space != "const")
    return decoder.unsupported(instruction);
  SLUICE_ASSIGN_OR_RETURN(const uint32_t result,
                          decoder.destination(instruction, instruction.operands[0], 8));
  SLUICE_ASSIGN_OR_RETURN(const uint32_t source, decoder.source(instruction, instruction.operands[1], 8));
  const uint32_t step = decoder.constant(8, window);
  Op &op = decoder.emit(instruction);
  op.handler = InstructionTable::get().findPlain(from ? "sub.u64" : "add.u64")->handler;
  op.rows[0] = result;
  op.rows[1] = source;
  op.rows[2] = step;
  return absl::OkStatus();
}

Status emitPredicate(Decoder &decoder, const ptx::Instruction &instruction, const char *name, uint32_t result,
                     uint32_t first, uint32_t second = kNoRow) {
  Op &op = decoder.emit(instruction);
  op.handler = InstructionTable::get().findPlain(name)->handler;
  op.rows[0] = result;
  op.rows[1] = first;
  op.rows[2] = second;
  return absl::OkStatus();
}

/// Emits the comparison that the modifiers name into a new predicate. `combine` takes and, or, xor away.
StatusOr<uint32_t> emitComparison(Decoder &decoder, const ptx::Instruction &instruction, size_t firstModifier,
                                  std::string &combine) {
  std::string name = "setp";
  for (size_t i = 0; i < instruction.modifiers.size(); ++i) {
    const std::string &modifier = instruction.modifiers[i];
    if (i == firstModifier && firstModifier != 0)
      continue; // the result type of set
    if (modifier == "and" || modifier == "or" || modifier == "xor")
      combine = modifier;
    else
      name += "." + modifier;
  }
  const PlainRow *row = InstructionTable::get().findPlain(name);
  if (!row)
    return decoder.unsupported(instruction);
  const char type = row->signature[1];
  const uint32_t bytes = type == 'h' ? 2 : type == 'q' || type == 'd' ? 8 : 4;
  SLUICE_ASSIGN_OR_RETURN(const uint32_t a,
                          decoder.source(instruction, instruction.operands[1], bytes, type));
  SLUICE_ASSIGN_OR_RETURN(const uint32_t b,
                          decoder.source(instruction, instruction.operands[2], bytes, type));
  const uint32_t result = decoder.newRow(0);
  Op &op = decoder.emit(instruction);
  op.handler = row->handler;
  op.rows[0] = result;
  op.rows[1] = a;
  op.rows[2] = b;
  return result;
}

/// setp.lt.and.f32 p|q, a, b, c: p = (a < b) and c, q = not (a < b) and c.
Status decodeSetPredicate(Decoder &decoder, const ptx::Instruction &instruction) {
  if (instruction.operands.size() < 3 || instruction.operands.size() > 4)
    return decoder.error(instruction, "3 or 4 operands");
  std::string combine;
  SLUICE_ASSIGN_OR_RETURN(const uint32_t compared, emitComparison(decoder, instruction, 0, combine));
  if (combine.empty() != (instruction.operands.size() == 3))
    return decoder.error(instruction, "a predicate to combine with exactly where and, or or xor is given");
  uint32_t with = kNoRow;
  if (!combine.empty()) {
    SLUICE_ASSIGN_OR_RETURN(with, decoder.source(instruction, instruction.operands[3], 0));
  }
  ptx::Operand first = instruction.operands[0], second = instruction.operands[0];
  first.second.clear();
  second.name = second.second;
  second.second.clear();
  const auto assign = [&](const ptx::Operand &to, uint32_t value) -> Status {
    SLUICE_ASSIGN_OR_RETURN(const uint32_t result, decoder.destination(instruction, to, 0));
    if (combine.empty())
      return emitPredicate(decoder, instruction, "and.pred", result, value, value);
    return emitPredicate(decoder, instruction, (combine + ".pred").c_str(), result, value, with);
  };
  // The second first: `with` may be the register that the first result overwrites.
  if (!second.name.empty()) {
    const uint32_t opposite = decoder.newRow(0);
    SLUICE_RETURN_IF_ERROR(emitPredicate(decoder, instruction, "not.pred", opposite, compared));
    if (with != kNoRow) {
      const uint32_t kept = decoder.newRow(0);
      SLUICE_RETURN_IF_ERROR(emitPredicate(decoder, instruction, "and.pred", kept, with, with));
      with = kept;
    }
    SLUICE_RETURN_IF_ERROR(assign(second, opposite));
  }
  return assign(first, compared);
}

/// set.lt.u32.f32 d, a, b: all ones or 1.0 where it holds.
Status decodeSet(Decoder &decoder, const ptx::Instruction &instruction) {
  const size_t count = instruction.modifiers.size();
  if (count < 3 || instruction.operands.size() != 3)
    return decoder.unsupported(instruction);
  const std::string &type = instruction.modifiers[count - 2];
  if (type != "u32" && type != "s32" && type != "f32")
    return decoder.unsupported(instruction);
  std::string combine;
  SLUICE_ASSIGN_OR_RETURN(const uint32_t compared, emitComparison(decoder, instruction, count - 2, combine));
  SLUICE_ASSIGN_OR_RETURN(const uint32_t result,
                          decoder.destination(instruction, instruction.operands[0], 4));
  const uint32_t yes = decoder.constant(4, type == "f32" ? 0x3f800000 : 0xffffffff);
  const uint32_t no = decoder.constant(4, 0);
  Op &op = decoder.emit(instruction);
  op.handler = InstructionTable::get().findPlain("selp.b32")->handler;
  op.rows[0] = result;
  op.rows[1] = yes;
  op.rows[2] = no;
  op.rows[3] = compared;
  return absl::OkStatus();
}

} // namespace

void addMoveRows(InstructionTable &table) {
  table.addDecoded("mov", &decodeMove);
  table.addDecoded("cvta", &decodeAddressConversion);
  table.addDecoded("setp", &decodeSetPredicate);
  table.addDecoded("set", &decodeSet);
}

} // namespace sluice::cudasim
