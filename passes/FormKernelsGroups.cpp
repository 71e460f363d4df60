#include "passes/FormKernelsGroups.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace sluice {
namespace {

constexpr size_t largestRepeat = 3; // maps that are computed again instead of read from memory

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
int64_t lastOf(ArrayRef<int64_t> shape) {
  return shape.empty() ? 1 : shape.back();
}
int64_t leadingOf(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape.drop_back(shape.empty() ? 0 : 1))
    product *= size;
  return product;
}
int64_t elementsOf(Value value) {
  return leadingOf(shapeOf(value)) * lastOf(shapeOf(value));
}

/// Whether a reshape between these shapes leaves rows and columns as they are.
bool keepsRows(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  return leadingOf(from) == leadingOf(to) && lastOf(from) == lastOf(to);
}

bool isColumnReduce(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce &&
         !llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(shapeOf(reduce.getX()).size()) - 1);
}

/// The shape that an op's loop runs over.
ArrayRef<int64_t> iterationOf(Operation *op) {
  return isa<ReduceOp>(op) ? shapeOf(op->getOperand(0)) : shapeOf(op->getResult(0));
}

StringRef directionOf(Operation *op) {
  OriginAttr origin = originOf(op);
  return origin ? origin.getDirection() : "";
}

/// Cheap scalar work: nothing that takes a polynomial.
bool isCheapBody(MapOp map) {
  int64_t ops = 0;
  for (Operation &op : map.getBody().front()) {
    if (isa_and_nonnull<math::MathDialect>(op.getDialect()) &&
        !isa<math::SqrtOp, math::RsqrtOp, math::AbsFOp>(op))
      return false;
    ++ops;
  }
  return ops <= 9;
}

/// Calls `visit` for the users of `value`, looking through notation.
template <typename IsMember, typename Visit> void forFinalUsers(Value value, IsMember isMember, Visit visit) {
  for (Operation *user : value.getUsers()) {
    if (isa<ReshapeOp, BroadcastOp>(user) && !isMember(user))
      forFinalUsers(user->getResult(0), isMember, visit);
    else
      visit(user);
  }
}

} // namespace

KernelGroups::KernelGroups(GraphOp graph) : graph(graph) {
  int64_t next = 0;
  for (Operation &op : *graph.getBlock())
    positions[&op] = next++;
  orderStates();
  for (Operation &op : llvm::reverse(*graph.getBlock())) {
    // -2: computed again by whatever reads it; -1: a member that is not placed yet. Users come first.
    if (isMember(&op))
      groupIndex[&op] = feedsOnlyColumnSums(&op) ? -2 : -1;
  }
  for (Operation &op : *graph.getBlock())
    if (auto found = groupIndex.find(&op); found != groupIndex.end() && found->second == -1)
      place(&op);
  chooseStored();
}

int KernelGroups::groupOf(Operation *op) const {
  auto found = groupIndex.find(op);
  return found == groupIndex.end() ? -1 : std::max(found->second, -1);
}

void KernelGroups::orderStates() {
  llvm::DenseMap<Attribute, SmallVector<Operation *>> writers, readers;
  for (Operation &op : *graph.getBlock()) {
    Attribute state = isa<ReadOp, WriteOp, AccumulateOp>(op) ? op.getAttr("state") : Attribute();
    if (!state)
      continue;
    if (!writers[state].empty())
      stateEdges[&op].push_back(writers[state].back());
    if (isa<ReadOp>(op)) {
      readers[state].push_back(&op);
      continue;
    }
    // A value that was read lives in the state's own memory, so its users come before the next write.
    for (Operation *read : readers[state]) {
      stateEdges[&op].push_back(read);
      SmallVector<Value> views = {read->getResult(0)};
      while (!views.empty())
        for (Operation *user : views.pop_back_val().getUsers()) {
          if (positions.lookup(user) < positions.lookup(&op))
            stateEdges[&op].push_back(user);
          if (isa<ReshapeOp>(user))
            views.push_back(user->getResult(0));
        }
    }
    readers[state].clear();
    writers[state].push_back(&op);
  }
}

ArrayRef<Operation *> KernelGroups::stateOrder(Operation *op) const {
  auto found = stateEdges.find(op);
  return found == stateEdges.end() ? ArrayRef<Operation *>() : ArrayRef<Operation *>(found->second);
}

bool KernelGroups::isMember(Operation *op) const {
  if (isa<MapOp, ReduceOp>(op))
    return true;
  if (!isa<BroadcastOp>(op))
    return false;
  // A broadcast that no kernel can repeat must be written out.
  SmallVector<Value> views = {op->getResult(0)};
  while (!views.empty()) {
    Value view = views.pop_back_val();
    for (Operation *user : view.getUsers()) {
      if (!isa<MapOp, ReduceOp, BroadcastOp, ReshapeOp>(user) ||
          (isa<ReshapeOp>(user) && !keepsRows(shapeOf(view), shapeOf(user->getResult(0)))))
        return true;
      if (isa<BroadcastOp, ReshapeOp>(user))
        views.push_back(user->getResult(0));
    }
  }
  return false;
}

KernelGroups::Producer KernelGroups::producerOf(Value operand, ArrayRef<int64_t> iteration) const {
  bool fusable = leadingOf(shapeOf(operand)) == leadingOf(iteration);
  while (Operation *op = operand.getDefiningOp()) {
    if (groupIndex.contains(op))
      return {op, fusable};
    if (!isa<ReshapeOp, BroadcastOp>(op))
      return {nullptr, false};
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
    fusable &= leadingOf(from) == leadingOf(to) && (isa<BroadcastOp>(op) || lastOf(from) == lastOf(to));
    operand = op->getOperand(0);
  }
  return {nullptr, false};
}

bool KernelGroups::feedsOnlyColumnSums(Operation *op) const {
  if (!isa<MapOp>(op) || op->use_empty())
    return false;
  bool only = true;
  forFinalUsers(
      op->getResult(0), [&](Operation *user) { return groupIndex.contains(user); },
      [&](Operation *user) {
        auto found = groupIndex.find(user);
        only &= found != groupIndex.end() && (isColumnReduce(user) || found->second == -2);
        only &= directionOf(user) == directionOf(op);
      });
  if (!only)
    return false;
  // Every way to a user must keep rows and columns.
  SmallVector<Value> views = {op->getResult(0)};
  while (!views.empty()) {
    Value view = views.pop_back_val();
    for (Operation *user : view.getUsers()) {
      bool notation = isa<ReshapeOp, BroadcastOp>(user) && !groupIndex.contains(user);
      ArrayRef<int64_t> to = notation ? shapeOf(user->getResult(0)) : iterationOf(user);
      if (leadingOf(shapeOf(view)) != leadingOf(to) ||
          (isa<ReshapeOp>(user) && lastOf(shapeOf(view)) != lastOf(to)))
        return false;
      if (notation)
        views.push_back(user->getResult(0));
    }
  }
  return true;
}

bool KernelGroups::compatible(const KernelGroup &group, Operation *op) const {
  int64_t rows = leadingOf(iterationOf(op)), columns = lastOf(iterationOf(op));
  if (directionOf(op) != directionOf(group.members.front()))
    return false;
  if (group.byColumns)
    return isa<MapOp>(op) && rows == 1 && columns == group.columns;
  return rows == group.rows && (columns == group.columns || columns == 1 || group.columns == 1);
}

void KernelGroups::predecessors(Operation *op, SmallVectorImpl<Operation *> &result) const {
  SmallVector<Operation *> pending = {op};
  while (!pending.empty()) {
    Operation *current = pending.pop_back_val();
    for (Operation *edge : stateOrder(current))
      result.push_back(edge);
    for (Value operand : current->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source)
        continue;
      bool notation = isa<ReshapeOp, BroadcastOp, ConstantOp>(source) && !groupIndex.contains(source);
      (notation ? pending : result).push_back(source);
    }
  }
}

bool KernelGroups::dependsOn(Operation *op, const llvm::DenseSet<int> &targets,
                             llvm::DenseSet<Operation *> &seen) const {
  int64_t first = INT64_MAX;
  for (int target : targets)
    first = std::min(first, positions.lookup(list[target].members.front()));
  SmallVector<Operation *> pending = {op};
  while (!pending.empty()) {
    Operation *current = pending.pop_back_val();
    int group = groupOf(current);
    if (group >= 0 && targets.contains(group))
      return true;
    ArrayRef<Operation *> members = group >= 0 ? ArrayRef<Operation *>(list[group].members) : current;
    if (positions.lookup(members.back()) < first)
      continue; // everything it needs comes earlier still
    for (Operation *member : members)
      if (seen.insert(member).second)
        predecessors(member, pending);
  }
  return false;
}

bool KernelGroups::mayJoin(Operation *op, int group) const {
  SmallVector<Operation *> sources;
  predecessors(op, sources);
  llvm::DenseSet<Operation *> seen;
  return llvm::none_of(sources, [&](Operation *source) {
    return groupOf(source) != group && dependsOn(source, {group}, seen);
  });
}

bool KernelGroups::mayMerge(int a, int b) const {
  for (auto [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    llvm::DenseSet<Operation *> seen;
    for (Operation *member : list[from].members) {
      for (Value operand : member->getOperands()) {
        Producer producer = producerOf(operand, iterationOf(member));
        if (producer.op && groupOf(producer.op) == to && !producer.fusable)
          return false;
      }
      SmallVector<Operation *> sources;
      predecessors(member, sources);
      for (Operation *source : sources)
        if (groupOf(source) != from && groupOf(source) != to && dependsOn(source, {to}, seen))
          return false;
    }
  }
  return true;
}

void KernelGroups::place(Operation *op) {
  SmallVector<int> candidates;
  llvm::DenseSet<int> refused;
  for (Value operand : op->getOperands()) {
    Producer producer = producerOf(operand, iterationOf(op));
    int group = producer.op ? groupOf(producer.op) : -1;
    if (group < 0)
      continue;
    if (!producer.fusable)
      refused.insert(group);
    else if (!llvm::is_contained(candidates, group))
      candidates.push_back(group);
  }
  // The most recent first: it moves the fewest values.
  llvm::sort(candidates, [&](int a, int b) {
    return positions.lookup(list[a].members.back()) > positions.lookup(list[b].members.back());
  });
  int home = -1;
  if (!isColumnReduce(op))
    for (int candidate : candidates) {
      if (refused.contains(candidate) || list[candidate].members.empty())
        continue;
      if (home < 0 && compatible(list[candidate], op) && mayJoin(op, candidate)) {
        home = candidate;
        list[home].members.push_back(op);
        groupIndex[op] = home;
        if (!list[home].byColumns)
          list[home].columns = std::max(list[home].columns, lastOf(iterationOf(op)));
      } else if (home >= 0 && !list[home].byColumns && !list[candidate].byColumns &&
                 compatible(list[home], list[candidate].members.front()) &&
                 list[candidate].rows == list[home].rows &&
                 (list[candidate].columns == list[home].columns || list[candidate].columns == 1 ||
                  list[home].columns == 1) &&
                 mayMerge(home, candidate)) {
        for (Operation *member : list[candidate].members)
          groupIndex[member] = home;
        list[home].members.append(list[candidate].members);
        llvm::sort(list[home].members, [&](Operation *a, Operation *b) { return position(a) < position(b); });
        list[home].columns = std::max(list[home].columns, list[candidate].columns);
        list[candidate].members.clear();
      }
    }
  if (home >= 0)
    return;
  groupIndex[op] = static_cast<int>(list.size());
  list.push_back({isColumnReduce(op), leadingOf(iterationOf(op)), lastOf(iterationOf(op)), {op}});
}

bool KernelGroups::isReadByKernelsOnly(Value value, int group) const {
  bool only = true;
  SmallVector<Value> views = {value};
  while (!views.empty() && only) {
    Value view = views.pop_back_val();
    for (Operation *user : view.getUsers()) {
      bool notation = isa<ReshapeOp, BroadcastOp>(user) && !groupIndex.contains(user);
      if (notation) {
        views.push_back(user->getResult(0));
      } else if (!groupIndex.contains(user)) {
        only = false;
      } else if (groupOf(user) != group) {
        for (Value operand : user->getOperands())
          if (Producer producer = producerOf(operand, iterationOf(user));
              producer.op == value.getDefiningOp() && !producer.fusable)
            only = false;
      }
    }
  }
  return only;
}

bool KernelGroups::isCheapToRepeat(Value value) const {
  llvm::DenseSet<Value> leaves, seen;
  size_t maps = 0;
  SmallVector<Value> pending = {value};
  while (!pending.empty()) {
    Value current = pending.pop_back_val();
    if (!seen.insert(current).second)
      continue;
    Operation *op = current.getDefiningOp();
    if (op && isa<ConstantOp>(op))
      continue;
    if (op && isa<BroadcastOp, ReshapeOp>(op) && !groupIndex.contains(op)) {
      pending.push_back(op->getOperand(0));
      continue;
    }
    bool repeats = op && isa<MapOp>(op) && groupIndex.contains(op) && !stored.contains(current) &&
                   elementsOf(current) == elementsOf(value);
    if (!repeats) {
      leaves.insert(current);
      continue;
    }
    if (++maps > largestRepeat || !isCheapBody(cast<MapOp>(op)))
      return false;
    pending.append(op->operand_begin(), op->operand_end());
  }
  int64_t large = 0;
  for (Value leaf : leaves) {
    Operation *op = leaf.getDefiningOp();
    // A leaf that a kernel computes must be stored; only values of a row are worth that.
    if (op && groupIndex.contains(op) && !stored.contains(leaf) && elementsOf(leaf) == elementsOf(value))
      return false;
    large += elementsOf(leaf) == elementsOf(value);
  }
  llvm::DenseSet<int> readers;
  bool sameDirection = true;
  forFinalUsers(
      value, [&](Operation *user) { return groupIndex.contains(user); },
      [&](Operation *user) {
        if (groupOf(user) != groupOf(value.getDefiningOp()) || groupOf(user) < 0)
          readers.insert(groupOf(user));
        sameDirection &= directionOf(user) == directionOf(value.getDefiningOp());
      });
  return large <= 1 || (large == 2 && readers.size() == 1 && sameDirection);
}

void KernelGroups::chooseStored() {
  for (Operation &op : *graph.getBlock()) {
    int group = groupOf(&op);
    if (group < 0)
      continue;
    Value value = op.getResult(0);
    bool outside = false;
    forFinalUsers(
        value, [&](Operation *user) { return groupIndex.contains(user); },
        [&](Operation *user) { outside |= groupOf(user) != group || groupOf(user) < 0; });
    if (!outside)
      continue;
    if (!isa<MapOp>(op) || !isReadByKernelsOnly(value, group) || !isCheapToRepeat(value)) {
      stored.insert(value);
      continue;
    }
    // What the repeated expression reads of this kernel's rows is stored instead.
    SmallVector<Value> pending = {value};
    while (!pending.empty()) {
      Value current = pending.pop_back_val();
      for (Value operand : current.getDefiningOp()->getOperands()) {
        Operation *source = operand.getDefiningOp();
        if (!source || isa<ConstantOp>(source) || stored.contains(operand))
          continue;
        bool notation = isa<BroadcastOp, ReshapeOp>(source) && !groupIndex.contains(source);
        if (notation ||
            (isa<MapOp>(source) && groupIndex.contains(source) && elementsOf(operand) == elementsOf(value)))
          pending.push_back(operand);
        else if (groupIndex.contains(source))
          stored.insert(operand);
      }
    }
  }
}

void KernelGroups::contents(const KernelGroup &group, SmallVectorImpl<Operation *> &ops,
                            SmallVectorImpl<Value> &inputs) const {
  llvm::DenseSet<Operation *> inside(group.members.begin(), group.members.end());
  llvm::DenseSet<Value> outside;
  SmallVector<Operation *> pending(group.members);
  ops.assign(group.members.begin(), group.members.end());
  llvm::DenseSet<Operation *> members = inside;
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    for (Value operand : op->getOperands()) {
      // Behind its reshapes: is the value made here, or does it come from memory?
      Operation *root = operand.getDefiningOp();
      while (root && isa<ReshapeOp>(root))
        root = root->getOperand(0).getDefiningOp();
      bool here = root && (members.contains(root) || isa<ConstantOp>(root) ||
                           (isa<MapOp, BroadcastOp>(root) && !stored.contains(root->getResult(0))));
      Operation *source = operand.getDefiningOp();
      if (!here)
        outside.insert(operand);
      else if (inside.insert(source).second) {
        ops.push_back(source);
        pending.push_back(source);
      }
    }
  }
  llvm::sort(ops, [&](Operation *a, Operation *b) { return position(a) < position(b); });
  // In order of first use, whatever the values' own order is: equal kernels of two layers must look equal.
  llvm::DenseSet<Value> listed;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (outside.contains(operand) && listed.insert(operand).second)
        inputs.push_back(operand);
}

} // namespace sluice
