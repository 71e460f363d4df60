// The modules of one CUDA target as the bytes of a kernel image (cuda_modules.fbs).
#pragma once

#include "runtime/support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::cuda {

struct ArchivedModule {
  std::vector<std::string> kernels;
  std::string bytes; // a cubin, or PTX text
};

std::string writeModuleArchive(const std::vector<ArchivedModule> &modules);

/// Errors: the bytes are damaged (bad input, naming `place`).
StatusOr<std::vector<ArchivedModule>> readModuleArchive(std::string_view bytes, const std::string &place);

} // namespace sluice::cuda
