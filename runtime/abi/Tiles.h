// The tiles of the CPU library that decide how much more than the useful work a command does; the ledger
// reads them.
#pragma once

#include <cstdint>

namespace sluice::tiles {

/// Rows of an expert are cut into pieces of this many for products with its weights, and reduced in pieces of
/// this many for the gradients of its weights.
inline constexpr int64_t groupedRows = 128, groupedDepth = 256;
/// The rest of an expert's rows is padded with zeros to the next of these.
inline constexpr int64_t preparedExtents[] = {16, 32, 48, 64, 96, 128, 192, 256};
/// Queries of attention are taken in blocks of this many, against all keys that any query of the block sees.
inline constexpr int64_t attentionQueries = 64;

} // namespace sluice::tiles
