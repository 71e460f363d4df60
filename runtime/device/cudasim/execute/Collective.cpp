#include "runtime/device/cudasim/execute/Collective.h"

namespace sluice::cudasim {

namespace {

void gather(Warp &warp, const Op &op, uint32_t lanes, Exchange &exchange) {
  forLanes(lanes, [&](uint32_t lane) {
    if (op.rows[kValue] != kNoRow)
      exchange.value[lane] = op.elementBytes == 8 ? warp.row<uint64_t>(op.rows[kValue])[lane]
                                                  : warp.row<uint32_t>(op.rows[kValue])[lane];
    if (op.rows[kSecond] != kNoRow)
      exchange.second[lane] = warp.row<uint32_t>(op.rows[kSecond])[lane];
    if (op.rows[kThird] != kNoRow)
      exchange.third[lane] = warp.row<uint32_t>(op.rows[kThird])[lane];
  });
  if (op.rows[kInputPredicate] != kNoRow)
    exchange.predicate |= warp.predicate(op.rows[kInputPredicate]) & lanes;
}

void scatter(Warp &warp, const Op &op, uint32_t lanes, const Exchange &exchange) {
  if (op.rows[kResult] != kNoRow)
    forLanes(lanes, [&](uint32_t lane) {
      warp.row<uint32_t>(op.rows[kResult])[lane] = static_cast<uint32_t>(exchange.result[lane]);
    });
  if (op.rows[kResultPredicate] != kNoRow) {
    uint32_t &predicate = warp.predicate(op.rows[kResultPredicate]);
    predicate = (predicate & ~lanes) | (exchange.resultPredicate & lanes);
  }
}

uint32_t membersOf(Warp &warp, const Op &op, uint32_t lane) {
  return op.rows[kMembers] == kNoRow ? kAllLanes : warp.row<uint32_t>(op.rows[kMembers])[lane];
}

/// Executes the collective of all groups that wait for `members` with the instruction `like`.
bool tryExecute(Block &block, Warp &warp, uint32_t members, const Op &like) {
  const std::vector<Op> &ops = block.grid.kernel.ops;
  const auto takesPart = [&](const Group &group) {
    return group.state == GroupState::AtCollective && group.awaited == members &&
           ops[group.pc].exchange == like.exchange;
  };
  uint32_t lanes = 0;
  for (const Group &group : warp.groups)
    if (takesPart(group))
      lanes |= group.mask;
  if (lanes == 0 || (members & ~warp.exited & ~lanes) != 0)
    return false;
  Exchange exchange;
  exchange.members = members;
  for (const Group &group : warp.groups)
    if (takesPart(group))
      gather(warp, ops[group.pc], group.mask, exchange);
  like.exchange(exchange, lanes);
  if (like.exchange == exchangeSyncWarp && block.grid.checks(Check::Race))
    syncLanes(warp.clock, lanes, warp.live());
  if (block.grid.checks(Check::Barrier)) {
    if (const uint32_t foreign = lanes & ~members)
      block.report(Check::Barrier, warp, like, std::countr_zero(foreign), 0,
                   absl::StrFormat("executed by lanes that its mask 0x%08x does not name", members));
    else if (const uint32_t gone = members & warp.exited)
      block.report(Check::Barrier, warp, like, std::countr_zero(lanes), 0,
                   absl::StrFormat("mask 0x%08x names lanes that have ended (0x%08x)", members, gone));
    if (const uint32_t invalid = exchange.invalid & lanes)
      block.report(Check::Barrier, warp, like, std::countr_zero(invalid), 0,
                   "reads from a lane that does not take part");
  }
  for (Group &group : warp.groups)
    if (takesPart(group)) {
      scatter(warp, ops[group.pc], group.mask, exchange);
      // The state last: it is what takesPart looks at.
      group.state = GroupState::Ready;
      group.pc += 1;
    }
  return true;
}

} // namespace

void exchangeSyncWarp(Exchange &, uint32_t) {}

void reachCollective(Block &block, Warp &warp, int index) {
  const Op &op = block.grid.kernel.ops[warp.groups[index].pc];
  // Lanes with different masks are different collectives.
  while (true) {
    const uint32_t mask = warp.groups[index].mask;
    const uint32_t members = membersOf(warp, op, std::countr_zero(mask));
    uint32_t same = 0;
    forLanes(mask, [&](uint32_t lane) { same |= uint32_t(membersOf(warp, op, lane) == members) << lane; });
    Group rest = warp.groups[index];
    warp.groups[index].mask = same;
    warp.groups[index].state = GroupState::AtCollective;
    warp.groups[index].awaited = members;
    if (same != mask) {
      rest.mask = mask & ~same;
      warp.groups.push_back(rest);
    }
    tryExecute(block, warp, members, op);
    if (same == mask)
      return;
    index = static_cast<int>(warp.groups.size()) - 1;
  }
}

void retryCollectives(Block &block, Warp &warp) {
  for (size_t i = 0; i < warp.groups.size(); ++i) {
    const Group group = warp.groups[i];
    if (group.state == GroupState::AtCollective)
      tryExecute(block, warp, group.awaited, block.grid.kernel.ops[group.pc]);
  }
}

} // namespace sluice::cudasim
