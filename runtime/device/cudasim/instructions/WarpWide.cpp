// shfl, vote, match, redux, elect, activemask, bar.warp: instructions of a whole warp.
#include "runtime/device/cudasim/instructions/WarpWide.h"

#include "runtime/device/cudasim/execute/Collective.h"

namespace sluice::cudasim {

namespace {

enum class Shuffle { Up, Down, Butterfly, Index };

/// PTX ISA, "shfl.sync": c holds the segment mask in bits 8 to 12 and the clamp in bits 0 to 4.
template <Shuffle Kind> void exchangeShuffle(Exchange &exchange, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    const uint32_t by = exchange.second[lane] & 31;
    const uint32_t segment = exchange.third[lane] >> 8 & 31, clamp = exchange.third[lane] & 31;
    const int last = static_cast<int>((lane & segment) | (clamp & ~segment));
    int source = 0;
    bool inside = false;
    switch (Kind) {
    case Shuffle::Up:
      source = static_cast<int>(lane) - static_cast<int>(by);
      inside = source >= last;
      break;
    case Shuffle::Down:
      source = static_cast<int>(lane + by);
      inside = source <= last;
      break;
    case Shuffle::Butterfly:
      source = static_cast<int>(lane ^ by);
      inside = source <= last;
      break;
    case Shuffle::Index:
      source = static_cast<int>((lane & segment) | (by & ~segment));
      inside = source <= last;
      break;
    }
    if (!inside)
      source = static_cast<int>(lane);
    if (lanes >> source & 1)
      exchange.result[lane] = exchange.value[source];
    else
      exchange.invalid |= uint32_t(1) << lane;
    exchange.resultPredicate |= uint32_t(inside) << lane;
  });
}

enum class Vote { All, Any, Uniform, Ballot };

template <Vote Kind> void exchangeVote(Exchange &exchange, uint32_t lanes) {
  const uint32_t votes = exchange.predicate & lanes;
  bool result = false;
  switch (Kind) {
  case Vote::All:
    result = votes == lanes;
    break;
  case Vote::Any:
    result = votes != 0;
    break;
  case Vote::Uniform:
    result = votes == lanes || votes == 0;
    break;
  case Vote::Ballot:
    break;
  }
  exchange.resultPredicate = result ? lanes : 0;
  forLanes(lanes, [&](uint32_t lane) { exchange.result[lane] = votes; });
}

void exchangeMatchAny(Exchange &exchange, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    forLanes(lanes, [&](uint32_t other) {
      exchange.result[lane] |= uint64_t(exchange.value[lane] == exchange.value[other]) << other;
    });
  });
}

void exchangeMatchAll(Exchange &exchange, uint32_t lanes) {
  const uint32_t first = std::countr_zero(lanes);
  bool same = true;
  forLanes(lanes, [&](uint32_t lane) { same &= exchange.value[lane] == exchange.value[first]; });
  exchange.resultPredicate = same ? lanes : 0;
  forLanes(lanes, [&](uint32_t lane) { exchange.result[lane] = same ? lanes : 0; });
}

template <typename T, T (*Function)(T, T)> void exchangeReduce(Exchange &exchange, uint32_t lanes) {
  T total = static_cast<T>(exchange.value[std::countr_zero(lanes)]);
  forLanes(lanes & (lanes - 1),
           [&](uint32_t lane) { total = Function(total, static_cast<T>(exchange.value[lane])); });
  forLanes(lanes, [&](uint32_t lane) { exchange.result[lane] = static_cast<uint32_t>(total); });
}
uint32_t sum(uint32_t a, uint32_t b) {
  return a + b;
}
template <typename T> T least(T a, T b) {
  return b < a ? b : a;
}
template <typename T> T greatest(T a, T b) {
  return a < b ? b : a;
}
uint32_t bitAnd(uint32_t a, uint32_t b) {
  return a & b;
}
uint32_t bitOr(uint32_t a, uint32_t b) {
  return a | b;
}
uint32_t bitXor(uint32_t a, uint32_t b) {
  return a ^ b;
}

/// The lowest lane leads.
void exchangeElect(Exchange &exchange, uint32_t lanes) {
  const uint32_t leader = std::countr_zero(lanes);
  exchange.resultPredicate = uint32_t(1) << leader;
  forLanes(lanes, [&](uint32_t lane) { exchange.result[lane] = leader; });
}

/// Operands by name: d result, D result with optional |p, p result predicate, v value (32 bits), V value (64
/// bits), q input predicate, b and c further inputs, m member mask.
struct WideRow {
  std::string_view name, operands;
  ExchangeFunction exchange;
};

constexpr WideRow kRows[] = {
    {"shfl.sync.up.b32", "Dvbcm", &exchangeShuffle<Shuffle::Up>},
    {"shfl.sync.down.b32", "Dvbcm", &exchangeShuffle<Shuffle::Down>},
    {"shfl.sync.bfly.b32", "Dvbcm", &exchangeShuffle<Shuffle::Butterfly>},
    {"shfl.sync.idx.b32", "Dvbcm", &exchangeShuffle<Shuffle::Index>},
    {"vote.sync.all.pred", "pqm", &exchangeVote<Vote::All>},
    {"vote.sync.any.pred", "pqm", &exchangeVote<Vote::Any>},
    {"vote.sync.uni.pred", "pqm", &exchangeVote<Vote::Uniform>},
    {"vote.sync.ballot.b32", "dqm", &exchangeVote<Vote::Ballot>},
    {"match.any.sync.b32", "dvm", &exchangeMatchAny},
    {"match.any.sync.b64", "dVm", &exchangeMatchAny},
    {"match.all.sync.b32", "Dvm", &exchangeMatchAll},
    {"match.all.sync.b64", "DVm", &exchangeMatchAll},
    {"redux.sync.add.u32", "dvm", &exchangeReduce<uint32_t, sum>},
    {"redux.sync.add.s32", "dvm", &exchangeReduce<uint32_t, sum>},
    {"redux.sync.min.u32", "dvm", &exchangeReduce<uint32_t, least<uint32_t>>},
    {"redux.sync.min.s32", "dvm", &exchangeReduce<int32_t, least<int32_t>>},
    {"redux.sync.max.u32", "dvm", &exchangeReduce<uint32_t, greatest<uint32_t>>},
    {"redux.sync.max.s32", "dvm", &exchangeReduce<int32_t, greatest<int32_t>>},
    {"redux.sync.and.b32", "dvm", &exchangeReduce<uint32_t, bitAnd>},
    {"redux.sync.or.b32", "dvm", &exchangeReduce<uint32_t, bitOr>},
    {"redux.sync.xor.b32", "dvm", &exchangeReduce<uint32_t, bitXor>},
    {"elect.sync", "Dm", &exchangeElect},
    {"bar.warp.sync", "m", &exchangeSyncWarp},
};

void runActiveMask(Warp &warp, const Op &op, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) { warp.row<uint32_t>(op.rows[0])[lane] = mask; });
}

Status decodeActiveMask(Decoder &decoder, const ptx::Instruction &instruction) {
  SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, 1));
  SLUICE_ASSIGN_OR_RETURN(const uint32_t result,
                          decoder.destination(instruction, instruction.operands[0], 4));
  Op &op = decoder.emit(instruction);
  op.handler = &runActiveMask;
  op.rows[0] = result;
  return absl::OkStatus();
}

} // namespace

Status decodeWarpWide(Decoder &decoder, const ptx::Instruction &instruction) {
  const std::string name = instruction.fullName();
  for (const WideRow &row : kRows) {
    if (row.name != name)
      continue;
    SLUICE_RETURN_IF_ERROR(decoder.expectOperands(instruction, row.operands.size()));
    std::array<uint32_t, 7> rows;
    rows.fill(kNoRow);
    uint8_t valueBytes = 4;
    for (size_t i = 0; i < row.operands.size(); ++i) {
      const ptx::Operand &operand = instruction.operands[i];
      const auto set = [&](int at, const StatusOr<uint32_t> &found) -> Status {
        SLUICE_RETURN_IF_ERROR(found.status());
        rows[at] = *found;
        return absl::OkStatus();
      };
      switch (row.operands[i]) {
      case 'd':
      case 'D': {
        ptx::Operand plain = operand, predicate;
        plain.second.clear();
        SLUICE_RETURN_IF_ERROR(set(kResult, decoder.destination(instruction, plain, 4)));
        if (operand.second.empty())
          break;
        if (row.operands[i] == 'd')
          return decoder.error(instruction, "one result");
        predicate.kind = ptx::Operand::Kind::Name;
        predicate.name = operand.second;
        SLUICE_RETURN_IF_ERROR(set(kResultPredicate, decoder.destination(instruction, predicate, 0)));
        break;
      }
      case 'p':
        SLUICE_RETURN_IF_ERROR(set(kResultPredicate, decoder.destination(instruction, operand, 0)));
        break;
      case 'v':
        SLUICE_RETURN_IF_ERROR(set(kValue, decoder.source(instruction, operand, 4)));
        break;
      case 'V':
        valueBytes = 8;
        SLUICE_RETURN_IF_ERROR(set(kValue, decoder.source(instruction, operand, 8)));
        break;
      case 'q':
        SLUICE_RETURN_IF_ERROR(set(kInputPredicate, decoder.source(instruction, operand, 0)));
        break;
      case 'b':
        SLUICE_RETURN_IF_ERROR(set(kSecond, decoder.source(instruction, operand, 4)));
        break;
      case 'c':
        SLUICE_RETURN_IF_ERROR(set(kThird, decoder.source(instruction, operand, 4)));
        break;
      default:
        SLUICE_RETURN_IF_ERROR(set(kMembers, decoder.source(instruction, operand, 4)));
      }
    }
    Op &op = decoder.emit(instruction, OpKind::Collective);
    op.exchange = row.exchange;
    std::copy(rows.begin(), rows.end(), op.rows.begin());
    op.elementBytes = valueBytes;
    return absl::OkStatus();
  }
  return decoder.unsupported(instruction);
}

void addWarpRows(InstructionTable &table) {
  for (const char *opcode : {"shfl", "vote", "match", "redux", "elect"})
    table.addDecoded(opcode, &decodeWarpWide);
  table.addDecoded("activemask", &decodeActiveMask);
}

} // namespace sluice::cudasim
