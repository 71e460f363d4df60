// Follows a planned graph through simulated arenas and finds values that were overwritten too early.
#pragma once

#include "dialects/plan/Plan.h"

namespace sluice {

struct ArenaCheckOptions {
  /// Also check the recorded dependencies: a command must depend, directly or not, on the command that wrote
  /// what it reads, and on all that read or wrote what it overwrites. Without it, program order counts.
  bool dependencies = true;
};

/// Goes through the commands in order and keeps for every byte of every arena whose value it holds (4 bytes
/// for a float or an id). Errors, at the op concerned: a slot outside of its arena or not a multiple of 64; a
/// command that reads a value some of whose bytes belong to another value (both are named); an output that is
/// no longer intact at the end; an operand that is neither apart from a result nor exactly in its place.
mlir::LogicalResult checkArenas(GraphOp graph, const ArenaCheckOptions &options = {});

} // namespace sluice
