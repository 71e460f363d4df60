// Where lanes that took different ways meet again: the immediate post-dominator of each branch.
#pragma once

#include "runtime/device/cudasim/program/Program.h"

namespace sluice::cudasim {

/// Sets `join` of every guarded branch to the first op that all ways from it lead through; kNoOp when some
/// way ends before. The last op must be an Exit. Algorithm: Cooper, Harvey, Kennedy, "A simple, fast
/// dominance algorithm", run on the reversed graph with one virtual end.
void findJoins(std::vector<Op> &ops);

} // namespace sluice::cudasim
