// cvt: the row of the table. Registers may be wider than the types.
#include "runtime/device/cudasim/execute/Warp.h"
#include "runtime/device/cudasim/instructions/Conversion.h"
#include "runtime/device/cudasim/program/Decoder.h"

namespace sluice::cudasim {

namespace {

uint64_t readLane(Warp &warp, uint32_t row, uint32_t bytes, uint32_t lane) {
  return bytes == 8   ? warp.row<uint64_t>(row)[lane]
         : bytes == 4 ? warp.row<uint32_t>(row)[lane]
                      : warp.row<uint16_t>(row)[lane];
}

void writeLane(Warp &warp, uint32_t row, uint32_t bytes, uint32_t lane, uint64_t value) {
  if (bytes == 8)
    warp.row<uint64_t>(row)[lane] = value;
  else if (bytes == 4)
    warp.row<uint32_t>(row)[lane] = static_cast<uint32_t>(value);
  else
    warp.row<uint16_t>(row)[lane] = static_cast<uint16_t>(value);
}

Conversion conversionOf(const Op &op) {
  Conversion conversion;
  conversion.result = static_cast<ValueType>(op.resultType);
  conversion.source = static_cast<ValueType>(op.sourceType);
  conversion.rounding = op.rounding;
  conversion.toIntegral = op.signExtend;
  conversion.flushDenormals = op.flushDenormals;
  conversion.saturate = op.saturate;
  return conversion;
}

void runConversion(Warp &warp, const Op &op, uint32_t mask) {
  const Conversion conversion = conversionOf(op);
  forLanes(mask, [&](uint32_t lane) {
    const uint64_t bits = readLane(warp, op.rows[1], op.sourceBytes, lane);
    writeLane(warp, op.rows[0], op.registerBytes, lane, convert(bits, conversion));
  });
}

/// cvt.rn.bf16x2.f32 d, a, b: a goes to the upper half.
void runPackedConversion(Warp &warp, const Op &op, uint32_t mask) {
  const Conversion conversion = conversionOf(op);
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t upper = static_cast<uint32_t>(convert(warp.row<uint32_t>(op.rows[1])[lane], conversion));
    const uint32_t lower = static_cast<uint32_t>(convert(warp.row<uint32_t>(op.rows[2])[lane], conversion));
    warp.row<uint32_t>(op.rows[0])[lane] = upper << 16 | lower;
  });
}

/// Conversions between integers that only move bits, and the common ones to float32.
template <typename To, typename From> void runPlainConversion(Warp &warp, const Op &op, uint32_t mask) {
  To *result = warp.row<To>(op.rows[0]);
  const From *source = warp.row<From>(op.rows[1]);
  if (mask == kAllLanes)
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      result[lane] = static_cast<To>(source[lane]);
  else
    forLanes(mask, [&](uint32_t lane) { result[lane] = static_cast<To>(source[lane]); });
}

Handler plainHandler(ValueType result, ValueType source) {
  struct Row {
    ValueType result, source;
    Handler handler;
  };
  using T = ValueType;
  static constexpr Row rows[] = {
      {T::S64, T::S32, &runPlainConversion<int64_t, int32_t>},
      {T::U64, T::U32, &runPlainConversion<uint64_t, uint32_t>},
      {T::U32, T::U64, &runPlainConversion<uint32_t, uint64_t>},
      {T::U16, T::U32, &runPlainConversion<uint16_t, uint32_t>},
      {T::U32, T::U16, &runPlainConversion<uint32_t, uint16_t>},
      {T::F32, T::S32, &runPlainConversion<float, int32_t>},
      {T::F32, T::U32, &runPlainConversion<float, uint32_t>},
      {T::F64, T::F32, &runPlainConversion<double, float>},
  };
  for (const Row &row : rows)
    if (row.result == result && row.source == source)
      return row.handler;
  return &runConversion;
}

/// Rounding of a modifier; `integral` for rni, rzi, rmi, rpi.
bool parseRounding(std::string_view modifier, Rounding &rounding, bool &integral) {
  if (modifier.size() < 2 || modifier.size() > 3 || modifier[0] != 'r' ||
      (modifier.size() == 3 && modifier[2] != 'i'))
    return false;
  integral = modifier.size() == 3;
  switch (modifier[1]) {
  case 'n':
    rounding = Rounding::Nearest;
    return true;
  case 'z':
    rounding = Rounding::Zero;
    return true;
  case 'm':
    rounding = Rounding::Down;
    return true;
  case 'p':
    rounding = Rounding::Up;
    return true;
  default:
    return false;
  }
}

Status decodeConversion(Decoder &decoder, const ptx::Instruction &instruction) {
  Rounding rounding = Rounding::Nearest;
  bool integral = false, flush = false, saturates = false, packed = false;
  std::vector<ValueType> types;
  for (const std::string &modifier : instruction.modifiers) {
    if (parseRounding(modifier, rounding, integral))
      continue;
    if (modifier == "ftz") {
      flush = true;
    } else if (modifier == "sat") {
      saturates = true;
    } else if (modifier == "bf16x2" || modifier == "f16x2") {
      packed = true;
      types.push_back(modifier == "f16x2" ? ValueType::F16 : ValueType::Bf16);
    } else if (const std::optional<ValueType> type = valueType(modifier)) {
      types.push_back(*type);
    } else {
      return decoder.unsupported(instruction);
    }
  }
  if (types.size() != 2)
    return decoder.unsupported(instruction);
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, packed ? 3 : 2));
  if (packed && types[1] != ValueType::F32)
    return decoder.unsupported(instruction);
  uint8_t resultBytes = static_cast<uint8_t>(packed ? 4 : valueBytes(types[0]));
  uint8_t sourceBytes = static_cast<uint8_t>(valueBytes(types[1]));
  const uint8_t needed = resultBytes, given = sourceBytes;
  if (instruction.operands[0].kind != ptx::Operand::Kind::Name &&
      instruction.operands[0].kind != ptx::Operand::Kind::Sink)
    return decoder.error(instruction, "a register to write");
  if (instruction.operands[0].kind == ptx::Operand::Kind::Name &&
      decoder.registerBytes(instruction, instruction.operands[0]) == 0)
    return decoder.error(instruction, "a register to write");
  SLUICE_ASSIGN_OR_RETURN(const uint32_t result,
                          decoder.anyRegister(instruction, instruction.operands[0], resultBytes));
  SLUICE_ASSIGN_OR_RETURN(const uint32_t source,
                          decoder.anyRegister(instruction, instruction.operands[1], sourceBytes));
  uint32_t second = kNoRow;
  if (packed) {
    SLUICE_ASSIGN_OR_RETURN(second, decoder.source(instruction, instruction.operands[2], 4, 'f'));
  }
  if (resultBytes < needed || sourceBytes < given)
    return decoder.error(instruction, "registers as wide as the types");
  Op &op = decoder.emit(instruction);
  op.rows[0] = result;
  op.rows[1] = source;
  op.rows[2] = second;
  op.registerBytes = resultBytes;
  op.sourceBytes = sourceBytes;
  op.resultType = static_cast<uint8_t>(types[0]);
  op.sourceType = static_cast<uint8_t>(types[1]);
  op.rounding = rounding;
  // A float that stays a float is made whole by rni and its like; to an integer it always is.
  op.signExtend = integral;
  op.flushDenormals = flush;
  op.saturate = saturates;
  const bool exactWidths =
      resultBytes == std::max<uint32_t>(2, needed) && sourceBytes == std::max<uint32_t>(2, given);
  const bool simple = !packed && exactWidths && !saturates && !flush && rounding == Rounding::Nearest;
  op.handler = packed ? &runPackedConversion : simple ? plainHandler(types[0], types[1]) : &runConversion;
  return absl::OkStatus();
}

} // namespace

void addConversionRows(InstructionTable &table) {
  table.addDecoded("cvt", &decodeConversion);
}

} // namespace sluice::cudasim
