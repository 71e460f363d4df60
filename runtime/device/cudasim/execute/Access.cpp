#include "runtime/device/cudasim/execute/Access.h"

#include <algorithm>
#include <cstring>

namespace sluice::cudasim {

namespace {

constexpr uint32_t kSector = 32, kBanks = 32, kBankBytes = 4;

std::string_view spaceName(AddressSpace space) {
  constexpr std::string_view names[] = {"generic", "global", "shared", "local", "parameter"};
  return names[static_cast<int>(space)];
}

struct Target {
  AddressSpace space = AddressSpace::Global;
  uint64_t address = 0;
  uint8_t *host = nullptr; // null: illegal
};

Target locate(Block &block, const Warp &warp, const Op &op, uint32_t lane, uint64_t address, uint32_t bytes) {
  Target target;
  target.space = op.space;
  target.address = address;
  if (op.space == AddressSpace::Generic)
    target.space = splitGeneric(target.address);
  const auto inside = [&](uint64_t size) { return target.address <= size && bytes <= size - target.address; };
  switch (target.space) {
  case AddressSpace::Generic:
  case AddressSpace::Global:
    if (target.address >= kGlobalBase && findAllocation(*block.grid.allocations, target.address, bytes))
      target.host = block.grid.memory.host(target.address);
    break;
  case AddressSpace::Shared:
    if (inside(block.shared.size()))
      target.host = block.shared.data() + target.address;
    break;
  case AddressSpace::Local:
    if (inside(block.grid.kernel.localBytes))
      target.host = block.local.data() + size_t(block.grid.kernel.localBytes) * (warp.index * kLanes + lane) +
                    target.address;
    break;
  case AddressSpace::Param:
    if (inside(block.grid.request.parameters.size()) && !op.isStore)
      target.host = const_cast<uint8_t *>(block.grid.request.parameters.data()) + target.address;
    break;
  }
  return target;
}

void reportIllegal(Block &block, const Warp &warp, const Op &op, uint32_t lane, const Target &target,
                   uint32_t bytes) {
  const std::string what =
      absl::StrFormat("%s of %d bytes at %s address 0x%x", op.isStore ? "store" : "access", bytes,
                      std::string(spaceName(target.space)), target.address);
  std::string why;
  if (target.space == AddressSpace::Shared) {
    why = concat(", the block has ", block.shared.size(), " bytes");
  } else if (target.space == AddressSpace::Local) {
    why = concat(", the thread has ", block.grid.kernel.localBytes, " bytes");
  } else if (target.space == AddressSpace::Param) {
    why = op.isStore ? ", which is read only" : "";
  } else if (const Allocation *freed = block.grid.memory.findFreed(target.address)) {
    why = absl::StrFormat(", which was freed (0x%x, %d bytes)", freed->address, freed->bytes);
  } else {
    const AllocationList &list = *block.grid.allocations;
    auto after = std::upper_bound(list.begin(), list.end(), target.address,
                                  [](uint64_t value, const Allocation &a) { return value < a.address; });
    if (after != list.begin()) {
      const Allocation &before = *(after - 1);
      why = absl::StrFormat(", %d bytes into the allocation 0x%x of %d bytes",
                            target.address - before.address, before.address, before.bytes);
    } else {
      why = ", which is no device memory";
    }
  }
  block.report(Check::Memory, warp, op, lane, target.address, concat("illegal ", what, why));
  block.grid.fail(Fault::IllegalAddress);
}

void checkWritten(Block &block, const Warp &warp, const Op &op, uint32_t lane, const Target &target,
                  uint32_t bytes) {
  uint8_t *written = nullptr;
  if (target.space == AddressSpace::Shared)
    written = block.sharedWritten.data() + target.address;
  else if (target.space == AddressSpace::Global)
    written = block.grid.memory.written(target.address);
  else
    return;
  if (op.isLoad && std::find(written, written + bytes, uint8_t(0)) != written + bytes)
    block.report(Check::Init, warp, op, lane, target.address,
                 absl::StrFormat("reads %s memory at 0x%x that was never written",
                                 std::string(spaceName(target.space)), target.address));
  if (op.isStore)
    std::memset(written, 1, bytes);
}

/// First bytes of what a lane stores, to tell equal values apart from others.
uint64_t storedValue(Warp &warp, const Op &op, uint32_t lane) {
  if (op.isAtomic || !op.isStore)
    return 0;
  uint64_t hash = 0;
  for (uint32_t i = 0; i < op.elements; ++i) {
    const uint32_t row = op.rows[i];
    const uint64_t value = op.registerBytes == 8   ? warp.row<uint64_t>(row)[lane]
                           : op.registerBytes == 4 ? warp.row<uint32_t>(row)[lane]
                                                   : warp.row<uint16_t>(row)[lane];
    hash = hash * 0x9e3779b97f4a7c15u + value;
  }
  return hash;
}

void checkRace(Block &block, Warp &warp, const Op &op, uint32_t lane, const Target &target, uint32_t bytes) {
  if (target.space != AddressSpace::Shared && target.space != AddressSpace::Global)
    return;
  const bool isGlobal = target.space == AddressSpace::Global;
  AccessPlace place;
  place.block = block.linear;
  place.thread = warp.index * kLanes + lane;
  place.op = block.opIndex(op);
  place.isStore = op.isStore;
  place.strong = op.isAtomic || op.isVolatile;
  place.value = storedValue(warp, op, lane);
  RaceHistory &history = isGlobal ? block.grid.globalHistory : block.sharedHistory;
  const std::optional<Race> race = history.access(target.address, bytes, place, warp.clock);
  if (race) {
    const Op &other = block.grid.kernel.ops[race->op];
    block.report(Check::Race, warp, op, lane, target.address,
                 absl::StrFormat("%s of %s memory at 0x%x races with the %s at %s by thread %s%s",
                                 op.isStore ? "store" : "load", std::string(spaceName(target.space)),
                                 target.address, race->wasStore ? "store" : "load",
                                 block.grid.kernel.place(other), block.threadName(race->thread),
                                 race->block == block.linear ? std::string(" of this block")
                                                             : concat(" of block ", race->block)));
  }
  if (isGlobal && place.strong) {
    const uint64_t self = warpKey(block.linear, warp.index);
    if (op.releases)
      fence(warp.clock, self);
    // The order matters: an atomic sees what was there before its own contribution.
    if (op.isLoad)
      block.grid.syncPoints.observe(target.address, warp.clock);
    if (op.isStore)
      block.grid.syncPoints.publish(target.address, warp.clock);
    if (op.acquires)
      fence(warp.clock, self);
  }
}

void countSectors(Statistics &statistics, const uint64_t *addresses, uint32_t mask, uint32_t bytes) {
  uint64_t sectors[kLanes * 2];
  uint32_t count = 0;
  forLanes(mask, [&](uint32_t lane) {
    const uint64_t first = addresses[lane] / kSector, last = (addresses[lane] + bytes - 1) / kSector;
    sectors[count++] = first;
    if (last != first)
      sectors[count++] = last;
  });
  std::sort(sectors, sectors + count);
  statistics.globalRequests += 1;
  statistics.globalSectors += std::unique(sectors, sectors + count) - sectors;
}

void countGlobal(Block &block, const Op &op, const uint64_t *addresses, uint32_t mask, uint32_t bytes) {
  countSectors(block.statistics, addresses, mask, bytes);
  forLanes(mask, [&](uint32_t lane) {
    uint64_t address = addresses[lane];
    if (op.space == AddressSpace::Global || splitGeneric(address) == AddressSpace::Global)
      block.footprint.note(address, bytes, op.isLoad, op.isStore);
  });
}

/// 4-byte accesses go in one pass over the banks, 8-byte ones in two half warps, 16-byte ones in four
/// quarters; each bank serves one word a pass, the same word to any number of lanes.
void countBanks(Statistics &statistics, const uint64_t *addresses, uint32_t mask, uint32_t bytes) {
  const uint32_t lanesPerPass = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  for (uint32_t begin = 0; begin < kLanes; begin += lanesPerPass) {
    const uint32_t part =
        mask & (lanesPerPass == 32 ? kAllLanes : ((uint32_t(1) << lanesPerPass) - 1) << begin);
    if (part == 0)
      continue;
    uint64_t words[kLanes * 4];
    uint32_t count = 0;
    forLanes(part, [&](uint32_t lane) {
      for (uint64_t word = addresses[lane] / kBankBytes; word <= (addresses[lane] + bytes - 1) / kBankBytes;
           ++word)
        words[count++] = word;
    });
    std::sort(words, words + count);
    const uint32_t distinct = static_cast<uint32_t>(std::unique(words, words + count) - words);
    uint32_t load[kBanks] = {}, worst = 0;
    for (uint32_t i = 0; i < distinct; ++i)
      worst = std::max(worst, ++load[words[i] % kBanks]);
    statistics.sharedWavefronts += worst;
    statistics.bankConflicts += worst - 1;
  }
}

void countBytes(Statistics &statistics, const Op &op, AddressSpace space, uint64_t bytes) {
  if (op.isAtomic)
    statistics.atomics += bytes / op.elementBytes;
  switch (space) {
  case AddressSpace::Generic:
  case AddressSpace::Global:
    statistics.globalLoadBytes += op.isLoad ? bytes : 0;
    statistics.globalStoreBytes += op.isStore ? bytes : 0;
    break;
  case AddressSpace::Shared:
    statistics.sharedLoadBytes += op.isLoad ? bytes : 0;
    statistics.sharedStoreBytes += op.isStore ? bytes : 0;
    break;
  case AddressSpace::Local:
    statistics.localBytes += bytes;
    break;
  case AddressSpace::Param:
    break;
  }
}

/// The common case: every lane stays inside one allocation (or the block's shared memory), aligned.
bool resolveFast(Block &block, const Op &op, const uint64_t *addresses, uint32_t mask, uint32_t bytes,
                 LanePointers &result) {
  uint64_t low = ~uint64_t(0), high = 0, misaligned = 0;
  forLanes(mask, [&](uint32_t lane) {
    low = std::min(low, addresses[lane]);
    high = std::max(high, addresses[lane]);
    misaligned |= addresses[lane];
  });
  if ((misaligned & (bytes - 1)) != 0)
    return false;
  uint8_t *base = nullptr;
  if (op.space == AddressSpace::Shared) {
    const uint64_t size = block.shared.size();
    if (high > size || bytes > size - high)
      return false;
    base = block.shared.data() + low;
  } else {
    const bool isGlobal =
        op.space == AddressSpace::Global || (op.space == AddressSpace::Generic && high < kSharedWindow);
    if (!isGlobal || low < kGlobalBase || !findAllocation(*block.grid.allocations, low, high - low + bytes))
      return false;
    base = block.grid.memory.host(low);
  }
  forLanes(mask, [&](uint32_t lane) { result.pointers[lane] = base + (addresses[lane] - low); });
  result.lanes = mask;
  countBytes(block.statistics, op, op.space, uint64_t(bytes) * std::popcount(mask));
  return true;
}

} // namespace

AddressSpace splitGeneric(uint64_t &address) {
  if (address >= kSharedWindow && address < kSharedWindow + kWindowBytes) {
    address -= kSharedWindow;
    return AddressSpace::Shared;
  }
  if (address >= kLocalWindow && address < kLocalWindow + kWindowBytes) {
    address -= kLocalWindow;
    return AddressSpace::Local;
  }
  if (address >= kParamWindow && address < kParamWindow + kWindowBytes) {
    address -= kParamWindow;
    return AddressSpace::Param;
  }
  return AddressSpace::Global;
}

void resolve(Warp &warp, const Op &op, uint32_t addressRow, uint32_t mask, uint32_t bytes,
             LanePointers &result) {
  Block &block = *warp.block;
  uint64_t addresses[kLanes];
  if (op.addressBytes == 8)
    forLanes(mask,
             [&](uint32_t lane) { addresses[lane] = warp.row<uint64_t>(addressRow)[lane] + op.offset; });
  else if (op.addressBytes == 4)
    forLanes(mask, [&](uint32_t lane) {
      // Addresses of 32 bits wrap around as such.
      addresses[lane] = static_cast<uint32_t>(warp.row<uint32_t>(addressRow)[lane] + op.offset);
    });
  else
    forLanes(mask, [&](uint32_t lane) { addresses[lane] = static_cast<uint64_t>(op.offset); });
  const bool checked = block.grid.checks(Check::Init) || block.grid.checks(Check::Race);
  if (block.grid.settings.statistics) {
    if (op.space == AddressSpace::Shared)
      countBanks(block.statistics, addresses, mask, bytes);
    else if (op.space != AddressSpace::Local && op.space != AddressSpace::Param)
      countGlobal(block, op, addresses, mask, bytes);
  }
  if (!checked && resolveFast(block, op, addresses, mask, bytes, result))
    return;
  result.lanes = 0;
  forLanes(mask, [&](uint32_t lane) {
    const Target target = locate(block, warp, op, lane, addresses[lane], bytes);
    if (!target.host)
      return reportIllegal(block, warp, op, lane, target, bytes);
    if (target.address % bytes != 0) {
      block.report(Check::Memory, warp, op, lane, target.address,
                   absl::StrFormat("misaligned access of %d bytes at 0x%x", bytes, target.address));
      return block.grid.fail(Fault::Misaligned);
    }
    result.pointers[lane] = target.host;
    result.lanes |= uint32_t(1) << lane;
    countBytes(block.statistics, op, target.space, bytes);
    if (block.grid.checks(Check::Race))
      checkRace(block, warp, op, lane, target, bytes);
    if (block.grid.checks(Check::Init))
      checkWritten(block, warp, op, lane, target, bytes);
  });
}

} // namespace sluice::cudasim
