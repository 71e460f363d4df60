// Instructions that lanes of a warp execute together: shuffles, votes, matches, reductions, syncs. Lanes wait
// until all that the instruction's mask names have come, wherever in the program they execute it.
#pragma once

#include "runtime/device/cudasim/execute/Block.h"

namespace sluice::cudasim {

/// Rows of a collective instruction.
enum CollectiveRow : int { kResult, kResultPredicate, kValue, kSecond, kThird, kMembers, kInputPredicate };

/// The group reaches a collective: it is executed, or the group waits. May split the group when its lanes
/// give different masks.
void reachCollective(Block &block, Warp &warp, int group);

/// Looks again at waiting groups after lanes have ended.
void retryCollectives(Block &block, Warp &warp);

/// bar.warp.sync: it moves no data.
void exchangeSyncWarp(Exchange &exchange, uint32_t lanes);

/// Lets groups go on for which all lanes have come to their join.
void completeJoins(Warp &warp);

} // namespace sluice::cudasim
