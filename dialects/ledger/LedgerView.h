// The rows of a ledger summed by op, layer, module or role: what the reports print. Every grouping has the
// same total.
#pragma once

#include "dialects/ledger/Ledger.h"

#include <optional>

namespace sluice {

/// Rows of the training graph under one name. Forward, backward and recompute are apart and add up to all.
struct LedgerEntry {
  std::string name;
  Count executions = 0;
  Count parameters = 0, active = 0;
  LedgerSum forward, backward, recompute;

  /// Adds a row; what an adjoint does again inside of itself goes to `recompute`.
  void add(const LedgerRow &row);
  LedgerEntry &operator+=(const LedgerEntry &other);
  /// Useful contractions, forward and backward.
  Count contractions() const { return forward.counts.ideal.contraction + backward.counts.ideal.contraction; }
  /// Useful work outside of contractions, forward and backward.
  Count elementwise() const {
    return forward.counts.ideal.elementwise() + backward.counts.ideal.elementwise();
  }
  /// All scalar operations that are executed, recompute included, and the bytes they move.
  Count executed() const {
    return forward.executed.arithmetic() + backward.executed.arithmetic() + recompute.executed.arithmetic();
  }
  Count bytes() const { return forward.executedBytes + backward.executedBytes + recompute.executedBytes; }
};

enum class LedgerKey { Op, Layer, Module, Role };
/// `op`, `layer`, `module`, `role`; nullopt for another word.
std::optional<LedgerKey> ledgerKeyByName(llvm::StringRef name);

/// The entries of a grouping in order of first appearance. Parameters are part of the groupings by module and
/// role.
std::vector<LedgerEntry> ledgerTable(const Ledger &ledger, LedgerKey key);

/// A module with what its own rows cost and what it costs with everything inside of it.
struct ModuleNode {
  std::string name, path;
  LedgerEntry own, total;
  size_t instances = 1; // how many modules of the graph this line stands for
  std::vector<ModuleNode> children;
};

/// The modules as a tree, children in order of first appearance. `mergeLayers`: modules whose paths differ in
/// numbers only share a node (`layers.*.attn`).
ModuleNode moduleTree(const Ledger &ledger, bool mergeLayers);

} // namespace sluice
