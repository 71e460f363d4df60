// The one list of phases: it drives `--to=PHASE`, `--save-temps`, the documentation and the tests.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir {
class OpPassManager;
}

namespace sluice {

enum class Phase {
  Parse,
  Bind,
  Flatten,
  Differentiate,
  Precision,
  SaveOrRecompute,
  LowerMasks,
  FuseExperts,
  FormKernels,
  Plan,
};

struct PhaseInfo {
  Phase phase;
  llvm::StringLiteral name;        // as in --to=NAME
  llvm::StringLiteral description; // one sentence, shown by --help and the docs
};

/// All phases in order.
llvm::ArrayRef<PhaseInfo> phases();
/// The phase of this name, or nullopt.
std::optional<Phase> phaseByName(llvm::StringRef name);
llvm::StringRef phaseName(Phase phase);

} // namespace sluice
