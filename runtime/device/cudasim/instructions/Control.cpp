// Branches, calls, the end of a thread, block barriers.
#include "runtime/device/cudasim/instructions/WarpWide.h"
#include "runtime/device/cudasim/program/Decoder.h"

namespace sluice::cudasim {

namespace {

Status decodeBranch(Decoder &decoder, const ptx::Instruction &instruction) {
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, 1));
  if (instruction.operands[0].kind != ptx::Operand::Kind::Name)
    return decoder.error(instruction, "a label");
  return decoder.branch(instruction, instruction.operands[0].name);
}

Status decodeReturn(Decoder &decoder, const ptx::Instruction &instruction) {
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, 0));
  return decoder.leave(instruction);
}

Status decodeCall(Decoder &decoder, const ptx::Instruction &instruction) {
  return decoder.call(instruction);
}

Status decodeTrap(Decoder &decoder, const ptx::Instruction &instruction) {
  decoder.emit(instruction, OpKind::Trap);
  return absl::OkStatus();
}

/// bar.sync a{, b}; bar.arrive a, b; bar.red.popc.u32 d, a{, b}, p. rows: result, number, threads, predicate.
Status decodeBarrier(Decoder &decoder, const ptx::Instruction &instruction) {
  std::vector<std::string> words;
  for (const std::string &modifier : instruction.modifiers)
    if (modifier != "aligned" && modifier != "cta")
      words.push_back(modifier);
  if (words.size() == 2 && words[0] == "warp" && words[1] == "sync")
    return decodeWarpWide(decoder, instruction);
  if (words.empty())
    return decoder.unsupported(instruction);
  size_t next = 0;
  const size_t count = instruction.operands.size();
  uint32_t result = kNoRow, threads = kNoRow, predicate = kNoRow;
  BarrierAction action = BarrierAction::Sync;
  const bool reduces = words[0] == "red";
  if (reduces && words.size() == 3 && count >= 3) {
    action = words[1] == "popc"  ? BarrierAction::CountTrue
             : words[1] == "and" ? BarrierAction::AllTrue
                                 : BarrierAction::AnyTrue;
    SLUICE_ASSIGN_OR_RETURN(result, decoder.destination(instruction, instruction.operands[next++],
                                                        action == BarrierAction::CountTrue ? 4 : 0));
    SLUICE_ASSIGN_OR_RETURN(predicate, decoder.source(instruction, instruction.operands[count - 1], 0));
  } else if (words.size() == 1 && words[0] == "arrive") {
    action = BarrierAction::Arrive;
  } else if (words.size() != 1 || words[0] != "sync") {
    return decoder.unsupported(instruction);
  }
  const size_t numbers = count - next - (reduces ? 1 : 0);
  if (count < 1 || numbers < 1 || numbers > 2 || (action == BarrierAction::Arrive && numbers != 2))
    return decoder.error(instruction, "a barrier's number and perhaps a count of threads");
  SLUICE_ASSIGN_OR_RETURN(const uint32_t number, decoder.source(instruction, instruction.operands[next], 4));
  if (numbers == 2) {
    SLUICE_ASSIGN_OR_RETURN(threads, decoder.source(instruction, instruction.operands[next + 1], 4));
  }
  Op &op = decoder.emit(instruction, OpKind::Barrier);
  op.barrier = action;
  op.rows[0] = result;
  op.rows[1] = number;
  op.rows[2] = threads;
  op.rows[3] = predicate;
  return absl::OkStatus();
}

} // namespace

void addControlRows(InstructionTable &table) {
  table.addDecoded("bra", &decodeBranch);
  table.addDecoded("ret", &decodeReturn);
  table.addDecoded("exit", &decodeReturn);
  table.addDecoded("call", &decodeCall);
  table.addDecoded("trap", &decodeTrap);
  table.addDecoded("bar", &decodeBarrier);
  table.addDecoded("barrier", &decodeBarrier);
}

} // namespace sluice::cudasim
