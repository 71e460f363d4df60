#include "runtime/device/cudasim/checks/RaceCheck.h"

namespace sluice::cudasim {

bool RaceHistory::orderedBefore(const Stamp &stamp, const AccessPlace &place, const WarpClock &clock) {
  if (stamp.epoch == 0)
    return true;
  const uint32_t warp = stamp.thread / kLanes;
  if (stamp.block != place.block || warp != place.thread / kLanes)
    return clock.known.covers(warpKey(stamp.block, warp), stamp.epoch);
  if (stamp.thread == place.thread || stamp.epoch <= clock.laneSync)
    return true;
  const uint32_t pair = uint32_t(1) << stamp.thread % kLanes | uint32_t(1) << place.thread % kLanes;
  for (const WarpClock::PartialSync &sync : clock.partial)
    if ((sync.lanes & pair) == pair && stamp.epoch <= sync.epoch)
      return true;
  return false;
}

std::optional<Race> RaceHistory::access(uint64_t address, uint32_t bytes, const AccessPlace &place,
                                        const WarpClock &clock) {
  std::optional<Race> race;
  for (uint64_t at = address / 4 * 4; at < address + bytes; at += 4) {
    Stamp now;
    now.block = place.block;
    now.thread = place.thread;
    now.epoch = clock.epoch;
    now.op = place.op;
    now.strong = place.strong;
    now.value = place.value;
    for (uint32_t byte = 0; byte < 4; ++byte)
      if (at + byte >= address && at + byte < address + bytes)
        now.bytes = static_cast<uint8_t>(now.bytes | 1 << byte);
    Cell &cell = cells[at];
    const auto conflicts = [&](const Stamp &earlier, bool earlierStores) {
      if ((earlier.bytes & now.bytes) == 0 || (earlier.strong && now.strong) ||
          orderedBefore(earlier, place, clock))
        return;
      // One instruction of one warp that stores the same value from several lanes is defined.
      if (earlierStores && place.isStore && earlier.op == now.op && earlier.block == now.block &&
          earlier.thread / kLanes == now.thread / kLanes && earlier.value == now.value)
        return;
      if (!race)
        race = Race{earlier.block, earlier.thread, earlier.op, earlierStores};
    };
    conflicts(cell.write, true);
    if (place.isStore) {
      conflicts(cell.read, false);
      conflicts(cell.otherRead, false);
      // Halves of a cell may be written by different threads; a partial write must not hide the other's.
      if (now.bytes == 15 || cell.write.epoch == 0 || orderedBefore(cell.write, place, clock))
        cell.write = now;
    } else {
      if (!orderedBefore(cell.read, place, clock))
        cell.otherRead = cell.read;
      cell.read = now;
    }
  }
  return race;
}

void SyncPoints::publish(uint64_t address, const WarpClock &warp) {
  if (warp.fenced)
    published[address].join(*warp.fenced);
}

void SyncPoints::observe(uint64_t address, WarpClock &warp) const {
  if (auto found = published.find(address); found != published.end())
    warp.pending.join(found->second);
}

void fence(WarpClock &warp, uint64_t self) {
  warp.known.join(warp.pending);
  warp.pending.clear();
  warp.fenced = warp.known;
  warp.fenced->advance(self, warp.epoch);
  ++warp.epoch;
}

void syncLanes(WarpClock &warp, uint32_t lanes, uint32_t allLanes) {
  constexpr size_t kKept = 16;
  if ((lanes & allLanes) == allLanes) {
    warp.laneSync = warp.epoch;
    warp.partial.clear();
  } else {
    warp.partial.push_back({lanes, warp.epoch});
    if (warp.partial.size() > kKept)
      warp.partial.erase(warp.partial.begin());
  }
  ++warp.epoch;
}

} // namespace sluice::cudasim
