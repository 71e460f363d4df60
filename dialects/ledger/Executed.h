// What the device's commands do beyond the useful work: padded rows, whole blocks of attention.
#pragma once

#include "dialects/interfaces/Counts.h"

#include "mlir/IR/Operation.h"

namespace sluice {

/// The ideal counts of `op` with what the CPU library's command for it computes in vain
/// (runtime/abi/Tiles.h): products of experts pad each expert's rest of rows, under the routing that pads the
/// most (the compile-time bound); causal attention multiplies whole blocks of queries with all keys that one
/// of them sees. Register tiles inside of a library's product are not known here and not counted.
ClassCounts executedCounts(mlir::Operation *op, const OpCounts &counts);

/// Scores that one head computes for one sequence under a causal mask: whole blocks of queries, each with
/// every key that one of its queries sees. `window`: keys that a query sees; 0: all before it.
Count attentionBlockScores(int64_t sequence, int64_t window);

/// What padding adds to `contraction` FLOPs of a product with the weights of experts, spread evenly over
/// `rows` rows.
Count paddingOfProduct(Count contraction, Count rows, Count experts, int64_t piece);

/// An upper bound of the zero rows that `experts` groups with `rows` rows in all get, whatever the split,
/// when each group is cut into pieces of `piece` rows and its rest is padded to a prepared extent.
Count largestPadding(Count rows, Count experts, int64_t piece);

} // namespace sluice
