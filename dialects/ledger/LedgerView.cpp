#include "dialects/ledger/LedgerView.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

namespace sluice {
namespace {

/// Entries by name in order of first appearance.
class EntryList {
public:
  LedgerEntry &operator[](const std::string &name) {
    auto [known, isNew] = index.try_emplace(name, entries.size());
    if (isNew)
      entries.emplace_back().name = name;
    return entries[known->second];
  }
  std::vector<LedgerEntry> take() { return std::move(entries); }

private:
  std::map<std::string, size_t> index;
  std::vector<LedgerEntry> entries;
};

std::string nameOf(const LedgerRow &row, LedgerKey key) {
  switch (key) {
  case LedgerKey::Op:
    return row.op;
  case LedgerKey::Layer:
    return row.layer < 0 ? "outside" : std::to_string(row.layer);
  case LedgerKey::Module:
    return row.path.empty() ? "(model)" : row.path;
  case LedgerKey::Role:
    return row.role.empty() ? "(none)" : row.role;
  }
  return "";
}

/// `layers.3.attn` becomes `layers.*.attn`.
std::string withoutNumbers(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '.', -1, false);
  for (llvm::StringRef &part : parts)
    if (llvm::all_of(part, llvm::isDigit))
      part = "*";
  return llvm::join(parts, ".");
}

/// The node of a path below `root`, made with all that lead to it.
ModuleNode &nodeOf(ModuleNode &root, const std::string &path) {
  ModuleNode *node = &root;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(path).split(parts, '.', -1, false);
  for (llvm::StringRef part : parts) {
    auto found = llvm::find_if(node->children, [&](const ModuleNode &child) { return child.name == part; });
    if (found == node->children.end()) {
      ModuleNode child;
      child.name = part.str();
      child.path = node->path.empty() ? child.name : node->path + "." + child.name;
      node->children.push_back(std::move(child));
      found = std::prev(node->children.end());
    }
    node = &*found;
  }
  return *node;
}

void sumUp(ModuleNode &node) {
  node.total = node.own;
  for (ModuleNode &child : node.children) {
    sumUp(child);
    node.total += child.total;
  }
}

} // namespace

void LedgerEntry::add(const LedgerRow &row) {
  executions += row.executions;
  (row.direction == "recompute" ? recompute : row.direction == "backward" ? backward : forward) += row;
  recompute.counts.ideal += row.counts.recompute;
  recompute.counts.dense += row.counts.recompute;
  recompute.fullAttention += row.counts.recompute;
  recompute.executed += row.counts.recompute;
}

LedgerEntry &LedgerEntry::operator+=(const LedgerEntry &other) {
  executions += other.executions;
  parameters += other.parameters, active += other.active;
  forward += other.forward, backward += other.backward, recompute += other.recompute;
  return *this;
}

std::optional<LedgerKey> ledgerKeyByName(llvm::StringRef name) {
  static constexpr std::pair<llvm::StringLiteral, LedgerKey> keys[] = {{"op", LedgerKey::Op},
                                                                       {"layer", LedgerKey::Layer},
                                                                       {"module", LedgerKey::Module},
                                                                       {"role", LedgerKey::Role}};
  for (auto [word, key] : keys)
    if (word == name)
      return key;
  return std::nullopt;
}

std::vector<LedgerEntry> ledgerTable(const Ledger &ledger, LedgerKey key) {
  EntryList list;
  for (const LedgerRow &row : ledger.rows)
    if (row.graph == ledger.trainingGraph)
      list[nameOf(row, key)].add(row);
  const ParameterCounts &counts = ledger.parameters;
  auto addParameters = [&](const std::map<std::string, Count> &all,
                           const std::map<std::string, Count> &active) {
    for (const auto &[name, count] : all) {
      if (count == 0)
        continue;
      LedgerEntry &entry = list[name.empty() ? "(model)" : name];
      entry.parameters += count;
      if (auto found = active.find(name); found != active.end())
        entry.active += found->second;
    }
  };
  if (key == LedgerKey::Module)
    addParameters(counts.byPath, counts.activeByPath);
  else if (key == LedgerKey::Role)
    addParameters(counts.byRole, counts.activeByRole);
  return list.take();
}

ModuleNode moduleTree(const Ledger &ledger, bool mergeLayers) {
  ModuleNode root;
  root.name = "model";
  std::map<std::string, std::set<std::string>> instances;
  auto at = [&](const std::string &path) -> ModuleNode & {
    const std::string name = mergeLayers ? withoutNumbers(path) : path;
    // Every prefix counts as a module of its own.
    for (size_t dot = path.find('.'), same = name.find('.');;
         dot = path.find('.', dot + 1), same = name.find('.', same + 1)) {
      instances[name.substr(0, same)].insert(path.substr(0, dot));
      if (dot == std::string::npos)
        break;
    }
    return nodeOf(root, name);
  };
  for (const LedgerRow &row : ledger.rows)
    if (row.graph == ledger.trainingGraph)
      at(row.path).own.add(row);
  for (const auto &[path, count] : ledger.parameters.byPath)
    at(path).own.parameters += count;
  for (const auto &[path, count] : ledger.parameters.activeByPath)
    at(path).own.active += count;
  sumUp(root);
  std::function<void(ModuleNode &)> setInstances = [&](ModuleNode &node) {
    if (auto found = instances.find(node.path); found != instances.end() && !node.path.empty())
      node.instances = found->second.size();
    llvm::for_each(node.children, setInstances);
  };
  setInstances(root);
  return root;
}

} // namespace sluice
