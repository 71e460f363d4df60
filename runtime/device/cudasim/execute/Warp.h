// A warp: 32 lanes whose registers are rows, in groups that run at different places after a divergent branch.
#pragma once

#include "runtime/device/cudasim/checks/RaceCheck.h"
#include "runtime/device/cudasim/program/Program.h"

#include <bit>
#include <cstdint>
#include <vector>

namespace sluice::cudasim {

class Block;

enum class GroupState : uint8_t { Ready, AtBarrier, AtCollective };

/// Lanes that run together.
struct Group {
  uint32_t pc = 0;
  uint32_t mask = 0;
  int join = -1; // index into the warp's joins; -1: none
  GroupState state = GroupState::Ready;
  uint32_t awaited = 0; // lanes that a collective waits for; number of the barrier
};

/// A place where lanes wait for the others that took another way.
struct Join {
  uint32_t pc = 0;
  uint32_t mask = 0;    // lanes that are expected
  uint32_t arrived = 0; // lanes that wait
  int parent = -1;
  bool used = false;
};

struct Warp {
  uint8_t *file = nullptr; // rows
  Block *block = nullptr;
  uint32_t index = 0;
  uint32_t exited = 0; // lanes that ended, or that the block does not have
  uint64_t executed = 0;
  std::vector<Group> groups;
  std::vector<Join> joins;
  WarpClock clock;

  template <typename T> T *row(uint32_t offset) { return reinterpret_cast<T *>(file + offset); }
  uint32_t &predicate(uint32_t offset) { return *row<uint32_t>(offset); }
  uint32_t live() const { return ~exited; }
};

/// Calls `body(lane)` for each lane of `mask`, lowest first.
template <typename Body> inline void forLanes(uint32_t mask, Body &&body) {
  for (; mask != 0; mask &= mask - 1)
    body(static_cast<uint32_t>(std::countr_zero(mask)));
}

/// What the lanes of a collective instruction bring and take.
struct Exchange {
  uint32_t members = 0; // the instruction's mask
  uint64_t value[kLanes] = {};
  uint32_t second[kLanes] = {}, third[kLanes] = {};
  uint32_t predicate = 0; // input, when the instruction takes one
  uint64_t result[kLanes] = {};
  uint32_t resultPredicate = 0;
  uint32_t invalid = 0; // lanes that read from one that does not take part
};

} // namespace sluice::cudasim
