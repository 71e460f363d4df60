// The second half of `inspect --kernels`: what the commands of an executable launch on CUDA, by which rule,
// and what they compute and move.
#pragma once

#include "runtime/schema/ExecutableDescription.h"
#include "runtime/support/Status.h"

#include <string>

namespace sluice::cli {

/// For each entry point its commands by kind (generated kernels by name): how many, floating-point operations
/// of products and bytes of operands, read and written once, of one run; below each the kernels it launches,
/// the blocks as a function of sizes, and their smallest and largest grid here. At most 100 columns. Errors:
/// a command that the CUDA device does not take (bad input).
StatusOr<std::string> launchReport(const Executable &executable);

} // namespace sluice::cli
