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
  std::map<std::string, Count> activeByRole, activeByPath;

  /// Parameters of the router (role `router`): published actives count them or leave them out.
  Count router() const;
  /// All totals without the router's parameters; the maps by path stay empty.
  ParameterCounts withoutRouter() const;
};

/// The roles that every report lists, those that a model does not have with zero.
extern const std::vector<std::string> parameterRoles;

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
  ClassCounts executed;      // ideal with the padding of the device's commands (Executed.h); no recompute
  Count bytes = 0;           // each op by itself: operands read once, results written once
  Count executedBytes =
      0; // the same at the borders of kernels and commands: what leaves a kernel, what enters
};

/// The readings of a sum of rows. `recompute` is apart from `ideal`.
struct LedgerSum {
  OpCounts counts;
  ClassCounts fullAttention;
  ClassCounts executed;
  Count bytes = 0, executedBytes = 0;
  LedgerSum &operator+=(const LedgerRow &row) {
    counts += row.counts;
    fullAttention += row.fullAttention;
    executed += row.executed;
    bytes += row.bytes;
    executedBytes += row.executedBytes;
    return *this;
  }
  LedgerSum &operator+=(const LedgerSum &other) {
    counts += other.counts;
    fullAttention += other.fullAttention;
    executed += other.executed;
    bytes += other.bytes;
    executedBytes += other.executedBytes;
    return *this;
  }
  bool operator==(const LedgerSum &) const = default;
};

struct Ledger {
  ParameterCounts parameters;
  std::vector<LedgerRow> rows; // in program order of their first op
  bool hasBackward = false;    // whether the module was differentiated

  /// The sum over rows of the training graph (@accumulate, or the model before *differentiate*) that `wanted`
  /// accepts.
  LedgerSum sum(const std::function<bool(const LedgerRow &)> &wanted) const;
  LedgerSum forward() const;  // direction forward
  LedgerSum backward() const; // direction backward
  /// Forward and backward. Its executed reading is all that a micro-batch runs: recompute too.
  LedgerSum training() const;
  LedgerSum recompute() const;  // direction recompute, as its own ideal; and what adjoints do again
  LedgerSum optimizer() const;  // @apply
  LedgerSum routing() const;    // role router, and ops that route, dispatch, combine or observe routing
  LedgerSum maskUpdate() const; // @update_topology

  /// The graph that `forward` and `backward` read, "" if the module has no graph.
  std::string trainingGraph;
  /// Sequences of a micro-batch and tokens of a sequence (the shape of the input `tokens`); 0 if unknown.
  Count batch = 0, sequence = 0;
  /// Tokens of an optimizer step (`batch_tokens` of the training section); 0 if unknown.
  Count stepTokens = 0;
};

/// What every report prints first: what is counted, and how. The second is one line of at most 100 columns.
extern const char *const ledgerConvention;
extern const char *const ledgerConventionLine;

/// Counts a module after any phase from *bind* on. Kernels and commands count the ops that they hold. Errors:
/// sizes that are still names; ops that cannot say their count, all of them, with their places; a count
/// beyond 128 bits.
StatusOr<Ledger> makeLedger(mlir::ModuleOp module);

/// The ledger as JSON (docs/ledger.schema.json): `parameters`, `flops.forward.ideal`, ... (contractions,
/// causal exact; the other classes under `classes`), and `rows`, from which everything can be summed again.
/// Every count is a decimal string.
std::string ledgerJson(const Ledger &ledger);

/// The report for people with its default options (LedgerReport.h): at most 100 columns.
std::string ledgerText(const Ledger &ledger);

/// `61,551,411,200`.
std::string groupedDigits(Count count);
/// `61.55 G`: four digits and a unit prefix.
std::string withUnit(Count count);

/// Whether an op routes, dispatches, combines or observes routing: part of `routing`, whatever its role.
bool isRoutingOp(llvm::StringRef op);

} // namespace sluice
