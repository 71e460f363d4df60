// The text of `inspect --kernels`: what each CUDA kernel of an executable needs.
#pragma once

#include "runtime/schema/ExecutableDescription.h"
#include "runtime/support/Status.h"

#include <string>

namespace sluice::cli {

/// A table for each target with cubins: registers, shared and local memory, spills and bounds, one kernel a
/// line, in at most 100 columns.
/// Errors: no CUDA target (usage); a damaged cubin (bad input).
StatusOr<std::string> kernelReport(const Executable &executable);

} // namespace sluice::cli
