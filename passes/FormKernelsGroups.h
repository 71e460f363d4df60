// Which elementwise and reduction ops of a graph become one kernel.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace sluice {

/// The ops of one kernel over a [rows, columns] domain.
struct KernelGroup {
  bool byColumns = false;
  int64_t rows = 1, columns = 1;
  llvm::SmallVector<mlir::Operation *> members; // in program order; empty after merging into another group
};

/// Groups of one graph. Members are maps, reductions, and broadcasts that a command or an output reads; other
/// broadcasts, reshapes and constants are notation that each kernel repeats for itself.
class KernelGroups {
public:
  explicit KernelGroups(GraphOp graph);

  llvm::ArrayRef<KernelGroup> groups() const { return list; }
  /// The group of a member, or -1: then it is recomputed by all kernels that read it.
  int groupOf(mlir::Operation *op) const;
  /// Whether the value of a member gets a place in memory.
  bool isStored(mlir::Value value) const { return stored.contains(value); }
  /// What a group's kernel holds: its members and what they read that is not stored, in program order, and
  /// the values that it reads from outside, each once.
  void contents(const KernelGroup &group, llvm::SmallVectorImpl<mlir::Operation *> &ops,
                llvm::SmallVectorImpl<mlir::Value> &inputs) const;
  /// Ops that must come before `op` for other reasons than its operands: earlier uses of the same state.
  llvm::ArrayRef<mlir::Operation *> stateOrder(mlir::Operation *op) const;
  int64_t position(mlir::Operation *op) const { return positions.lookup(op); }

private:
  struct Producer {
    mlir::Operation *op;
    bool fusable; // no view between that mixes rows and columns
  };

  void orderStates();
  bool isMember(mlir::Operation *op) const;
  bool feedsOnlyColumnSums(mlir::Operation *op) const;
  bool compatible(const KernelGroup &group, mlir::Operation *op) const;
  Producer producerOf(mlir::Value operand, mlir::ArrayRef<int64_t> iteration) const;
  bool dependsOn(mlir::Operation *op, const llvm::DenseSet<int> &targets,
                 llvm::DenseSet<mlir::Operation *> &seen) const;
  bool mayJoin(mlir::Operation *op, int group) const;
  bool mayMerge(int a, int b) const;
  void place(mlir::Operation *op);
  void chooseStored();
  bool isReadByKernelsOnly(mlir::Value value, int group) const;
  bool isCheapToRepeat(mlir::Value value) const;
  void predecessors(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Operation *> &result) const;

  GraphOp graph;
  std::vector<KernelGroup> list;
  llvm::DenseMap<mlir::Operation *, int> groupIndex;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>> stateEdges;
  llvm::DenseSet<mlir::Value> stored;
};

} // namespace sluice
