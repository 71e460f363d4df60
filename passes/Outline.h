// Outlining: some ops of a graph become one kernel op that holds them.
#pragma once

#include "dialects/sluice/Sluice.h"

#include <string>

namespace sluice {

/// What becomes a kernel. `ops` are of one block, in any order; `inputs` and `outputs` are the kernel's, in
/// its order.
struct OutlineRequest {
  llvm::StringRef kind;
  mlir::DictionaryAttr settings;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;
};

/// Clones the ops into a kernel at the first place where all inputs exist, redirects the outputs' users to it
/// and erases ops that became unused; ops that others still use stay, so they run in both places (see
/// `mayCopy`). The kernel takes the origin of the last op. Null, with a reason in `why` and nothing changed,
/// if an input is missing in the list, an op whose value is used elsewhere must not be copied, or an output
/// is needed before an input exists.
KernelOp outline(const OutlineRequest &request, llvm::function_ref<bool(mlir::Operation *)> mayCopy,
                 std::string &why);

} // namespace sluice
