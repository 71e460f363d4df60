// Compiled CUDA modules on disk, so that an unchanged kernel is compiled once on a machine.
#pragma once

#include "codegen/cuda/Nvrtc.h"

namespace sluice::cuda {

/// `unit` compiled for `architecture`, from the cache or by NVRTC and then into the cache. The key is a hash
/// of source, options, architecture, NVRTC's version and the device library. The folder is that of
/// runtime/support/CacheFolder.h; where it cannot be written, nothing is kept.
/// Thread-safe.
StatusOr<std::string> compileCached(const Nvrtc &nvrtc, const TranslationUnit &unit,
                                    const std::string &architecture);

} // namespace sluice::cuda
