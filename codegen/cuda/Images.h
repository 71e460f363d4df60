// The compiled kernels of one model for CUDA: modules for each architecture, ready to be stored in an
// executable.
#pragma once

#include "codegen/cuda/Nvrtc.h"

namespace sluice::cuda {

struct CudaImage {
  std::string target; // "cuda:sm_80", "cuda:compute_80"
  std::string image;  // a module archive (runtime/device/cuda/ModuleArchive.h)
  std::string source; // CUDA C++ of all units, in the PTX image only
  std::vector<std::string> kernels;
};

/// Which part of the library a model needs: masks' own kernels take longer to compile than all the others.
enum class Library { Whole, WithoutMasks };

/// Compiles the library of command kinds and `generated` (further units, may be empty) for every architecture
/// of `targets` ("cuda:sm_80") and once to PTX for the lowest of them, on all cores. Errors: a target that is
/// not cuda:sm_N (usage); no NVRTC; NVRTC's log.
StatusOr<std::vector<CudaImage>> compileImages(const std::vector<TranslationUnit> &generated,
                                               const std::vector<std::string> &targets,
                                               Library library = Library::Whole);

} // namespace sluice::cuda
