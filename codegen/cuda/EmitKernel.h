// A generated kernel's program as readable CUDA C++.
#pragma once

#include "codegen/cuda/Nvrtc.h"
#include "codegen/kernel/Identity.h"

namespace sluice::cuda {

/// One translation unit with one kernel of that name: a line is walked by a grid-stride loop; a row is a
/// block's; 32 columns are a block's, by 8 rows side by side. Parameters are the inputs' pointers, then the
/// outputs'. Errors are emitted at the kernel.
mlir::FailureOr<TranslationUnit> emitKernel(const NamedKernel &kernel);

} // namespace sluice::cuda
