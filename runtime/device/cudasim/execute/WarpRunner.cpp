#include "runtime/device/cudasim/execute/WarpRunner.h"

#include "runtime/device/cudasim/execute/Collective.h"

namespace sluice::cudasim {

namespace {

/// Instructions that a warp runs before the next has its turn, so that a spinning warp cannot starve the
/// others.
constexpr uint64_t kTurn = 20000;
/// Backward branches of a group while another one is ready, before that one has its turn.
constexpr uint32_t kPatience = 64;

class Runner {
public:
  Runner(Block &block, Warp &warp) : block(block), warp(warp), ops(block.grid.kernel.ops.data()) {}

  bool run() {
    const uint64_t start = warp.executed;
    impatient = false;
    while (!block.grid.stopped()) {
      const int chosen = choose();
      if (chosen < 0)
        break;
      step(chosen, start + kTurn);
      if (warp.executed - start >= kTurn)
        break;
    }
    return warp.executed != start;
  }

private:
  /// The ready group with the lowest pc; once that one has spun for long, the next higher one.
  int choose() {
    int lowest = -1, next = -1;
    for (int i = 0; i < static_cast<int>(warp.groups.size()); ++i) {
      const Group &group = warp.groups[i];
      if (group.state != GroupState::Ready)
        continue;
      if (lowest < 0 || group.pc < warp.groups[lowest].pc)
        lowest = i;
      if (impatient && group.pc > spinning && (next < 0 || group.pc < warp.groups[next].pc))
        next = i;
    }
    return next >= 0 ? next : lowest;
  }

  /// Merges groups that stand at the same place on the way to the same join; returns the pc at which the
  /// chosen group next comes to another one.
  uint32_t mergeInto(int &chosen) {
    uint32_t limit = kNoOp;
    for (int i = 0; i < static_cast<int>(warp.groups.size()); ++i) {
      const Group &other = warp.groups[i];
      if (i == chosen || other.state != GroupState::Ready)
        continue;
      Group &group = warp.groups[chosen];
      if (other.pc == group.pc && other.join == group.join) {
        group.mask |= other.mask;
        warp.groups.erase(warp.groups.begin() + i);
        if (i < chosen)
          --chosen;
        --i;
      } else if (other.pc > group.pc) {
        limit = std::min(limit, other.pc);
      } else if (!impatient) {
        limit = std::min(limit, group.pc + 1);
      }
    }
    return limit;
  }

  /// Runs one group until something happens that concerns the others.
  void step(int chosen, uint64_t turnEnd) {
    const uint32_t limit = mergeInto(chosen);
    const bool alone = limit == kNoOp && warp.groups.size() == 1;
    uint32_t pc = warp.groups[chosen].pc;
    const uint32_t mask = warp.groups[chosen].mask;
    const int join = warp.groups[chosen].join;
    const uint32_t joinPc = join < 0 ? kNoOp : warp.joins[join].pc;
    uint32_t backward = 0;
    uint64_t executed = warp.executed, threads = 0;
    const auto leave = [&] {
      block.statistics.warpInstructions += executed - warp.executed;
      block.statistics.threadInstructions += threads;
      warp.executed = executed;
      warp.groups[chosen].pc = pc;
    };
    const bool wasImpatient = impatient;
    impatient = false;
    while (true) {
      if (pc == joinPc) {
        leave();
        arriveAtJoin(chosen);
        return;
      }
      if (pc >= limit && !wasImpatient)
        return leave();
      if (executed >= turnEnd)
        return leave();
      const Op &op = ops[pc];
      uint32_t lanes = mask;
      if (op.guard != kNoRow) {
        const uint32_t guard = warp.predicate(op.guard);
        lanes &= op.guardNegated ? ~guard : guard;
      }
      ++executed;
      threads += std::popcount(lanes);
      switch (op.kind) {
      case OpKind::Plain:
        if (lanes != 0)
          op.handler(warp, op, lanes);
        ++pc;
        continue;
      case OpKind::Memory:
        if (lanes != 0) {
          op.handler(warp, op, lanes);
          if (block.grid.stopped())
            return leave();
        }
        ++pc;
        continue;
      case OpKind::Branch:
        if (lanes == mask) {
          if (op.target <= pc && !alone && ++backward > kPatience) {
            impatient = true;
            spinning = pc;
            pc = op.target;
            return leave();
          }
          pc = op.target;
          continue;
        }
        if (lanes == 0) {
          ++pc;
          continue;
        }
        leave();
        diverge(chosen, op, lanes);
        return;
      case OpKind::Exit:
        if (lanes == 0) {
          ++pc;
          continue;
        }
        ++pc;
        leave();
        exitLanes(chosen, lanes);
        return;
      case OpKind::Barrier:
      case OpKind::Collective:
        if (lanes == 0) {
          ++pc;
          continue;
        }
        leave();
        if (lanes != mask)
          chosen = splitOff(chosen, lanes);
        if (op.kind == OpKind::Barrier)
          reachBarrier(chosen, op);
        else
          reachCollective(block, warp, chosen);
        return;
      case OpKind::Trap:
        if (lanes == 0) {
          ++pc;
          continue;
        }
        leave();
        block.report(Check::Launch, warp, op, std::countr_zero(lanes), 0,
                     concat("trap at ", block.grid.kernel.place(op)));
        block.grid.fail(Fault::Trap);
        return;
      }
    }
  }

  int addJoin(uint32_t pc, uint32_t mask, int parent) {
    Join join;
    join.pc = pc;
    join.mask = mask;
    join.parent = parent;
    join.used = true;
    for (size_t i = 0; i < warp.joins.size(); ++i)
      if (!warp.joins[i].used) {
        warp.joins[i] = join;
        return static_cast<int>(i);
      }
    warp.joins.push_back(join);
    return static_cast<int>(warp.joins.size()) - 1;
  }

  void diverge(int chosen, const Op &op, uint32_t taken) {
    Group &group = warp.groups[chosen];
    const uint32_t rest = group.mask & ~taken;
    int join = group.join;
    // A loop's exit is the same join for each lane that leaves it.
    if (op.join != kNoOp && (join < 0 || warp.joins[join].pc != op.join))
      join = addJoin(op.join, group.mask, group.join);
    group.join = join;
    group.mask = rest;
    group.pc += 1;
    Group other = group;
    other.mask = taken;
    other.pc = op.target;
    warp.groups.push_back(other);
    // One of the two may stand at the join already; the second first, for its index stays valid.
    if (join >= 0) {
      if (warp.groups.back().pc == warp.joins[join].pc)
        arriveAtJoin(static_cast<int>(warp.groups.size()) - 1);
      if (warp.groups[chosen].mask == rest && warp.groups[chosen].pc == warp.joins[join].pc)
        arriveAtJoin(chosen);
    }
  }

  void arriveAtJoin(int chosen) {
    const Group group = warp.groups[chosen];
    warp.groups.erase(warp.groups.begin() + chosen);
    warp.joins[group.join].arrived |= group.mask;
    completeJoins(warp);
  }

  void exitLanes(int chosen, uint32_t lanes) {
    Group &group = warp.groups[chosen];
    group.mask &= ~lanes;
    warp.exited |= lanes;
    if (group.mask == 0)
      warp.groups.erase(warp.groups.begin() + chosen);
    completeJoins(warp);
    retryCollectives(block, warp);
    block.releaseBarriers();
  }

  /// Lanes outside of `lanes` go on behind the instruction; returns the group that executes it.
  int splitOff(int chosen, uint32_t lanes) {
    Group rest = warp.groups[chosen];
    rest.mask &= ~lanes;
    rest.pc += 1;
    warp.groups[chosen].mask = lanes;
    warp.groups.push_back(rest);
    return chosen;
  }

  void reachBarrier(int chosen, const Op &op) {
    Group &group = warp.groups[chosen];
    if (block.arrive(warp, group, op))
      group.pc += 1;
    else
      group.state = GroupState::AtBarrier;
    block.releaseBarriers();
  }

  Block &block;
  Warp &warp;
  const Op *ops;
  bool impatient = false; // a group has spun while others were ready
  uint32_t spinning = 0;  // where
};

} // namespace

void completeJoins(Warp &warp) {
  // A completed join may complete its parent, so look until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (Join &join : warp.joins) {
      if (!join.used || join.arrived != (join.mask & ~warp.exited))
        continue;
      join.used = false;
      changed = true;
      if (join.arrived == 0)
        continue;
      if (join.parent >= 0 && warp.joins[join.parent].pc == join.pc) {
        warp.joins[join.parent].arrived |= join.arrived;
        continue;
      }
      Group group;
      group.pc = join.pc;
      group.mask = join.arrived;
      group.join = join.parent;
      warp.groups.push_back(group);
    }
  }
}

bool releaseJoins(Warp &warp) {
  bool released = false;
  for (Join &join : warp.joins) {
    if (!join.used || join.arrived == 0)
      continue;
    Group group;
    group.pc = join.pc;
    group.mask = join.arrived;
    group.join = join.parent;
    join.mask &= ~join.arrived;
    join.arrived = 0;
    warp.groups.push_back(group);
    released = true;
  }
  completeJoins(warp);
  return released;
}

bool runWarp(Block &block, Warp &warp) {
  return Runner(block, warp).run();
}

void startWarp(Warp &warp, uint32_t lanes) {
  warp.exited = ~lanes;
  warp.executed = 0;
  warp.groups.clear();
  warp.joins.clear();
  warp.clock = {};
  Group group;
  group.mask = lanes;
  warp.groups.push_back(group);
}

} // namespace sluice::cudasim
