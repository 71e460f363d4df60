#include "runtime/device/cudasim/execute/Block.h"

#include "runtime/device/cudasim/execute/Collective.h"
#include "runtime/device/cudasim/execute/WarpRunner.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace sluice::cudasim {

namespace {

/// A warp that runs this many instructions in one block is taken to wait for something that never comes.
constexpr uint64_t kEndless = 2'000'000'000;

uint64_t specialValue(Special special, const Block &block, const Warp &warp, uint32_t lane) {
  const LaunchRequest &request = block.grid.request;
  const uint32_t thread = warp.index * kLanes + lane;
  const uint32_t *size = request.block;
  const uint32_t bit = uint32_t(1) << lane;
  switch (special) {
  case Special::TidX:
    return thread % size[0];
  case Special::TidY:
    return thread / size[0] % size[1];
  case Special::TidZ:
    return thread / (uint64_t(size[0]) * size[1]);
  case Special::NtidX:
  case Special::NtidY:
  case Special::NtidZ:
    return size[static_cast<int>(special) - static_cast<int>(Special::NtidX)];
  case Special::CtaidX:
  case Special::CtaidY:
  case Special::CtaidZ:
    return block.index[static_cast<int>(special) - static_cast<int>(Special::CtaidX)];
  case Special::NctaidX:
  case Special::NctaidY:
  case Special::NctaidZ:
    return request.grid[static_cast<int>(special) - static_cast<int>(Special::NctaidX)];
  case Special::Lane:
    return lane;
  case Special::WarpIndex:
    return warp.index;
  case Special::WarpCount:
    return block.warps.size();
  case Special::Multiprocessor:
  case Special::GridId:
    return 0;
  case Special::MultiprocessorCount:
    return 1;
  case Special::LanesEqual:
    return bit;
  case Special::LanesBelow:
    return bit - 1;
  case Special::LanesUpTo:
    return bit | (bit - 1);
  case Special::LanesAbove:
    return ~(bit | (bit - 1));
  case Special::LanesFrom:
    return ~(bit - 1);
  case Special::DynamicSharedBytes:
    return request.dynamicSharedBytes;
  case Special::TotalSharedBytes:
    return block.shared.size();
  }
  return 0;
}

void setLane(Warp &warp, uint32_t row, uint32_t bytes, uint32_t lane, uint64_t value) {
  if (bytes == 8)
    warp.row<uint64_t>(row)[lane] = value;
  else if (bytes == 4)
    warp.row<uint32_t>(row)[lane] = static_cast<uint32_t>(value);
  else
    warp.row<uint16_t>(row)[lane] = static_cast<uint16_t>(value);
}

bool changesWithBlock(Special special) {
  return special == Special::CtaidX || special == Special::CtaidY || special == Special::CtaidZ;
}

} // namespace

Block::Block(Grid &grid) : grid(grid), random(grid.settings.seed) {
  const Kernel &kernel = grid.kernel;
  const uint32_t count = (grid.threadsPerBlock + kLanes - 1) / kLanes;
  const size_t bytes = std::max<size_t>(64, size_t(kernel.rowBytes) * count);
  // Registers that a kernel never wrote are poison too.
  files.reset(static_cast<uint8_t *>(std::aligned_alloc(64, bytes)));
  std::memset(files.get(), 0xff, bytes);
  warps.resize(count);
  shared.resize(kernel.sharedBytes + grid.request.dynamicSharedBytes);
  if (grid.checks(Check::Init))
    sharedWritten.resize(shared.size());
  local.resize(size_t(kernel.localBytes) * count * kLanes);
  for (uint32_t i = 0; i < count; ++i) {
    warps[i].file = files.get() + size_t(kernel.rowBytes) * i;
    warps[i].block = this;
    warps[i].index = i;
    fillRows(warps[i]);
  }
  for (Barrier &barrier : barriers) {
    barrier.arrived.resize(count);
    barrier.predicates.resize(count);
  }
}

void Block::fillRows(Warp &warp) {
  for (const ConstantRow &constant : grid.kernel.constants) {
    if (constant.bytes == 0)
      warp.predicate(constant.row) = static_cast<uint32_t>(constant.value);
    else
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        setLane(warp, constant.row, constant.bytes, lane, constant.value);
  }
  for (const SpecialRow &special : grid.kernel.specials)
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      setLane(warp, special.row, special.bytes, lane, specialValue(special.special, *this, warp, lane));
}

void Block::start(uint64_t block) {
  linear = block;
  index[0] = static_cast<uint32_t>(block % grid.request.grid[0]);
  index[1] = static_cast<uint32_t>(block / grid.request.grid[0] % grid.request.grid[1]);
  index[2] = static_cast<uint32_t>(block / grid.request.grid[0] / grid.request.grid[1]);
  std::fill(shared.begin(), shared.end(), uint8_t(0xff));
  std::fill(sharedWritten.begin(), sharedWritten.end(), uint8_t(0));
  std::fill(local.begin(), local.end(), uint8_t(0xff));
  sharedHistory.clear();
  for (Barrier &barrier : barriers)
    barrier.used = false;
  for (Warp &warp : warps) {
    const uint32_t rest = grid.threadsPerBlock - warp.index * kLanes;
    startWarp(warp, rest >= kLanes ? kAllLanes : (uint32_t(1) << rest) - 1);
    for (const SpecialRow &special : grid.kernel.specials)
      if (changesWithBlock(special.special))
        for (uint32_t lane = 0; lane < kLanes; ++lane)
          setLane(warp, special.row, special.bytes, lane, specialValue(special.special, *this, warp, lane));
  }
  random.seed(grid.settings.seed * 0x9e3779b97f4a7c15u + block);
}

void Block::run(uint64_t block) {
  start(block);
  std::vector<uint32_t> order(warps.size());
  std::iota(order.begin(), order.end(), 0);
  while (!grid.stopped()) {
    if (grid.settings.seed != 0)
      std::shuffle(order.begin(), order.end(), random);
    bool ran = false, alive = false;
    for (uint32_t i : order) {
      ran |= runWarp(*this, warps[i]);
      alive |= warps[i].live() != 0;
      if (warps[i].executed > kEndless) {
        const Op &op = grid.kernel.ops[warps[i].groups.empty() ? 0 : warps[i].groups[0].pc];
        report(Check::Barrier, warps[i], op, 0, 0,
               "the warp ran 2,000,000,000 instructions in one block; does it wait for a block that cannot "
               "start?");
        return grid.fail(Fault::NoProgress);
      }
    }
    if (!alive)
      break;
    if (!ran && !breakDeadlock()) {
      if (!grid.stopped())
        reportDeadlock();
      return;
    }
  }
}

bool Block::breakDeadlock() {
  bool released = false;
  for (Warp &warp : warps)
    released |= releaseJoins(warp);
  return released;
}

void Block::reportDeadlock() {
  for (const Warp &warp : warps)
    for (const Group &group : warp.groups) {
      const Op &op = grid.kernel.ops[group.pc];
      report(Check::Barrier, warp, op, std::countr_zero(group.mask), 0,
             group.state == GroupState::AtBarrier
                 ? concat("waits for ever at barrier ", group.awaited, ", which other threads do not reach")
                 : absl::StrFormat("waits for ever for lanes 0x%08x",
                                   group.awaited & ~group.mask & ~warp.exited));
    }
  grid.fail(Fault::NoProgress);
}

bool Block::isComplete(const Barrier &barrier) const {
  uint32_t arrived = 0, expected = barrier.expected;
  uint32_t liveWarps = 0;
  for (const Warp &warp : warps) {
    liveWarps += warp.live() != 0;
    const uint32_t lanes = barrier.arrived[warp.index];
    // A warp counts as a whole, ended lanes and all.
    arrived +=
        lanes != 0 && (lanes & warp.live()) == warp.live() ? kLanes : std::popcount(lanes & warp.live());
  }
  if (expected == 0)
    expected = liveWarps * kLanes;
  return arrived >= expected;
}

bool Block::arrive(Warp &warp, Group &group, const Op &op) {
  uint32_t number = warp.row<uint32_t>(op.rows[1])[std::countr_zero(group.mask)];
  const uint32_t expected =
      op.rows[2] == kNoRow ? 0 : warp.row<uint32_t>(op.rows[2])[std::countr_zero(group.mask)];
  const uint32_t first = std::countr_zero(group.mask);
  const bool checked = grid.checks(Check::Barrier);
  if (number >= kBarriers) {
    report(Check::Barrier, warp, op, first, 0, concat("barrier number ", number, ", expected 0 to 15"));
    grid.fail(Fault::Trap);
    return false;
  }
  Barrier &barrier = barriers[number];
  if (!barrier.used) {
    std::fill(barrier.arrived.begin(), barrier.arrived.end(), 0);
    std::fill(barrier.predicates.begin(), barrier.predicates.end(), 0);
    barrier.expected = expected;
    barrier.op = opIndex(op);
    barrier.clock.clear();
    barrier.used = true;
  }
  if (checked && group.mask != warp.live())
    report(Check::Barrier, warp, op, first, 0,
           absl::StrFormat("barrier in divergent code: lanes 0x%08x of 0x%08x", group.mask, warp.live()));
  if (checked && barrier.expected != expected)
    report(Check::Barrier, warp, op, first, 0,
           concat("barrier ", number, " with ", expected, " threads, others gave ", barrier.expected));
  if (checked && expected == 0 && barrier.op != opIndex(op))
    report(
        Check::Barrier, warp, op, first, 0,
        concat("barrier ", number, " meets another one at ", grid.kernel.place(grid.kernel.ops[barrier.op])));
  if (checked && expected == 0) {
    const uint32_t rest = grid.threadsPerBlock - warp.index * kLanes;
    const uint32_t populated = rest >= kLanes ? kAllLanes : (uint32_t(1) << rest) - 1;
    if (const uint32_t ended = warp.exited & populated)
      report(Check::Barrier, warp, op, first, 0,
             absl::StrFormat("barrier after lanes 0x%08x of the warp have ended", ended));
  }
  barrier.arrived[warp.index] |= group.mask;
  if (op.rows[3] != kNoRow)
    barrier.predicates[warp.index] |= warp.predicate(op.rows[3]) & group.mask;
  if (grid.checks(Check::Race)) {
    barrier.clock.join(warp.clock.known);
    barrier.clock.advance(warpKey(linear, warp.index), warp.clock.epoch);
    ++warp.clock.epoch;
  }
  if (op.barrier == BarrierAction::Arrive)
    return true;
  group.awaited = number;
  return false;
}

void Block::releaseBarriers() {
  for (uint32_t number = 0; number < kBarriers; ++number)
    if (barriers[number].used && isComplete(barriers[number]))
      release(number);
}

void Block::release(uint32_t number) {
  Barrier &barrier = barriers[number];
  uint32_t count = 0;
  bool all = true;
  for (const Warp &warp : warps) {
    count += std::popcount(barrier.predicates[warp.index]);
    all &= (barrier.predicates[warp.index] & barrier.arrived[warp.index]) == barrier.arrived[warp.index];
  }
  for (Warp &warp : warps) {
    bool took = false;
    for (Group &group : warp.groups) {
      if (group.state != GroupState::AtBarrier || group.awaited != number)
        continue;
      const Op &op = grid.kernel.ops[group.pc];
      if (op.barrier == BarrierAction::CountTrue)
        forLanes(group.mask, [&](uint32_t lane) { warp.row<uint32_t>(op.rows[0])[lane] = count; });
      if (op.barrier == BarrierAction::AllTrue || op.barrier == BarrierAction::AnyTrue) {
        const bool holds = op.barrier == BarrierAction::AllTrue ? all : count != 0;
        uint32_t &predicate = warp.predicate(op.rows[0]);
        predicate = holds ? predicate | group.mask : predicate & ~group.mask;
      }
      group.state = GroupState::Ready;
      group.pc += 1;
      took = true;
      if (grid.checks(Check::Race))
        syncLanes(warp.clock, group.mask, warp.live());
    }
    if (took && grid.checks(Check::Race)) {
      warp.clock.known.join(barrier.clock);
    }
  }
  barrier.used = false;
  ++statistics.barriers;
}

std::string Block::threadName(uint32_t thread) const {
  const uint32_t *size = grid.request.block;
  return absl::StrFormat("(%d,%d,%d)", thread % size[0], thread / size[0] % size[1],
                         thread / (uint64_t(size[0]) * size[1]));
}

void Block::report(Check check, const Warp &warp, const Op &op, uint32_t lane, uint64_t address,
                   std::string_view message) {
  Finding finding;
  finding.check = check;
  finding.kernel = grid.kernel.name;
  finding.label = grid.request.label;
  finding.place = grid.kernel.place(op);
  finding.instruction = grid.kernel.texts[opIndex(op)];
  finding.blockIndex = linear;
  const uint32_t thread = warp.index * kLanes + lane;
  for (int i = 0; i < 3; ++i)
    finding.block[i] = index[i];
  finding.thread[0] = thread % grid.request.block[0];
  finding.thread[1] = thread / grid.request.block[0] % grid.request.block[1];
  finding.thread[2] =
      static_cast<uint32_t>(thread / (uint64_t(grid.request.block[0]) * grid.request.block[1]));
  finding.address = address;
  finding.message = std::string(message);
  grid.log.add(std::move(finding));
}

} // namespace sluice::cudasim
