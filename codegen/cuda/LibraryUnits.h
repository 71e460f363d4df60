// The kernels of the command kinds as units of compilation.
#pragma once

#include "codegen/cuda/Nvrtc.h"

#include <optional>
#include <set>

namespace sluice::cuda {

/// What is compiled at once, and the kernels that it defines.
struct KernelUnit {
  TranslationUnit text;
  std::vector<std::string> kernels;
};

/// The kernels that a text defines, in order.
std::vector<std::string> kernelsOf(const std::string &source);

/// A unit for each kernel of the library, or for those named in `launched`: compiled by itself, so that the
/// cache on disk serves every model that launches it. Its lines keep the numbers of the library's file.
std::vector<KernelUnit> libraryUnits(const std::optional<std::set<std::string>> &launched = std::nullopt);

} // namespace sluice::cuda
