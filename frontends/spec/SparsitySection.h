// The section `sparsity` of a spec: one rule, or a list of rules for different weights.
#pragma once

#include "frontends/decoder/Sparsity.h"
#include "frontends/spec/SpecReader.h"

#include "llvm/Support/JSON.h"

#include <vector>

namespace sluice {

/// Reads the section into `rules`, and what the program and the run need of it as JSON (docs/training.md).
/// Errors go to `reader`, each with the place where the key was written.
llvm::json::Object readSparsity(SpecReader &reader, const SpecTree &tree, std::vector<Sparsity> &rules);

} // namespace sluice
