// The compiled kernels of one model for CUDA: modules for each architecture, ready to be stored in an
// executable.
#pragma once

#include "codegen/cuda/Nvrtc.h"

#include <optional>
#include <set>

namespace sluice::cuda {

struct CudaImage {
  std::string target; // "cuda:sm_80", "cuda:compute_80"
  std::string image;  // a module archive (runtime/device/cuda/ModuleArchive.h)
  std::string source; // CUDA C++ of all units, in the PTX image only
  std::vector<std::string> kernels;
};

/// Compiles the library of command kinds and `generated` (further units, may be empty) for every architecture
/// of `targets` ("cuda:sm_80") and once to PTX for the lowest of them, on all cores. Of the library only the
/// kernels named in `launched`, where it is given; each is compiled by itself, so that the cache on disk
/// serves every model that launches it. Errors: a target that is not cuda:sm_N (usage); no NVRTC; NVRTC's
/// log.
StatusOr<std::vector<CudaImage>>
compileImages(const std::vector<TranslationUnit> &generated, const std::vector<std::string> &targets,
              const std::optional<std::set<std::string>> &launched = std::nullopt);

} // namespace sluice::cuda
