// The ledger: exact counts of a model's parameters and scalar operations, after any phase.
#pragma once

#include "dialects/interfaces/Counts.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// Parameters, every storage once: a tied table counts once. "Tables" are parameters of kind embedding and
/// head.
struct ParameterCounts {
  Count total = 0;
  Count active = 0;                    // stacked experts count top_k of them
  Count activeWithoutInputTable = 0;   // the input table stays where it is also the head
  Count activeNonEmbedding = 0;        // active without tables
  Count nonEmbedding = 0;              // total without tables
  Count nonzero = 0;                   // kept weights; equals total without masks
  std::map<std::string, Count> byRole; // by kind: attention, expert, norm, ...
  std::map<std::string, Count> byPath; // by module path, the name without its last part
};

/// All executions of one kind of op at one place.
struct LedgerRow {
  std::string graph; // entry point or model graph
  std::string path;  // layers.0.attn
  int64_t layer = -1;
  std::string role;      // attention, expert, router, ...
  std::string direction; // forward, backward, recompute, update, initialize
  std::string op;        // name without dialect: grouped_linear
  int64_t executions = 0;
  OpCounts counts;
  ClassCounts fullAttention; // ideal, but attention over the full square of positions
};

/// The readings of a sum of rows. `recompute` is apart from `ideal`.
struct LedgerSum {
  OpCounts counts;
  ClassCounts fullAttention;
  LedgerSum &operator+=(const LedgerRow &row) {
    counts += row.counts;
    fullAttention += row.fullAttention;
    return *this;
  }
};

struct Ledger {
  ParameterCounts parameters;
  std::vector<LedgerRow> rows; // in program order of their first op
  bool hasBackward = false;    // whether the module was differentiated

  /// The sum over rows of the training graph (@accumulate, or the model before *differentiate*) that `wanted`
  /// accepts.
  LedgerSum sum(const std::function<bool(const LedgerRow &)> &wanted) const;
  LedgerSum forward() const;   // direction forward
  LedgerSum backward() const;  // direction backward
  LedgerSum training() const;  // forward and backward
  LedgerSum recompute() const; // direction recompute, as its own ideal; and what adjoints do again
  LedgerSum optimizer() const; // @apply
  LedgerSum routing() const;   // role router, and ops that route, dispatch, combine or observe routing

  /// The graph that `forward` and `backward` read, "" if the module has no graph.
  std::string trainingGraph;
};

/// What every report prints first: what is counted, and how.
extern const char *const ledgerConvention;

/// Counts a module after any phase from *bind* on. Kernels and commands count the ops that they hold. Errors:
/// sizes that are still names; ops that cannot say their count, all of them, with their places.
StatusOr<Ledger> makeLedger(mlir::ModuleOp module);

/// JSON with the keys `parameters.total`, `parameters.active`, `flops.forward.ideal`, `flops.training.ideal`,
/// ... (contractions, causal exact) and tables by op, layer, path and role. Every count is a decimal string.
std::string ledgerJson(const Ledger &ledger);

/// A tree for people, at most 100 columns: exact totals with grouped digits, then one line a module.
std::string ledgerText(const Ledger &ledger);

/// `61,551,411,200`.
std::string groupedDigits(Count count);
/// `61.55 G`: four digits and a unit prefix.
std::string withUnit(Count count);

} // namespace sluice
