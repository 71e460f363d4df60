// The oracle: runs a graph of a module after any phase, op by op, in float64 with plain loops.
#pragma once

#include "dialects/interfaces/Counts.h"
#include "dialects/interfaces/Evaluation.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>
#include <string>

namespace sluice {

/// Tensors by name.
using TensorMap = std::map<std::string, HostTensor>;

struct InterpreterOptions {
  /// After *plan*: also check that every value stays untouched in its slot until its last reader
  /// (ArenaCheck.h). Graphs without commands have no arenas and run as they are.
  bool simulateArenas = false;
  /// Called after each op of the graph's own body (after *plan*: each command) with its results, in program
  /// order.
  std::function<void(mlir::Operation *, llvm::ArrayRef<const HostTensor *>)> observe;
  /// Counting mode, for graphs after *flatten*: ops run with counting scalars (Counting.h), and each
  /// execution of an op is reported with what it did. An op without a counting meaning is an error.
  std::function<void(mlir::Operation *, const ClassCounts &)> count;
};

/// Runs graphs of one module. Types must be static (after *bind*).
///
/// Before *flatten* the notations run as written: a repeat iterates, `experts` runs once an expert and keeps
/// that expert's rows, parameters are looked up under their full names (`layers.0.attn.wq`), stacked
/// [experts, ...] inside `experts`, so that one map of states serves every phase. `auxiliary_loss` adds to
/// the output `auxiliary/<name>`, `observe` yields `<name>/<scope path>`.
class Interpreter {
public:
  explicit Interpreter(mlir::ModuleOp module, InterpreterOptions options = {})
      : module(module), options(std::move(options)) {}

  /// Runs `@graph` with named inputs and returns the named outputs; `states` are read and updated in place.
  /// Errors: a missing or misshapen input or state (usage), or what an op reported, with its name and place.
  StatusOr<TensorMap> run(llvm::StringRef graph, const TensorMap &inputs, TensorMap &states) const;

private:
  mlir::ModuleOp module;
  InterpreterOptions options;
};

/// The initial value of every parameter, and of every other state if the module has states. Normals are the
/// Philox draws of the runtime (stream = the state's name, step 0, element = row-major index), rounded to
/// float32.
TensorMap initialStates(mlir::ModuleOp module, uint64_t seed);

} // namespace sluice
