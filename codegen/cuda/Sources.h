// The CUDA C++ that the compiler carries: the device library (.cuh) and the kernels of the command kinds
// (.cu).
#pragma once

#include <string_view>
#include <vector>

namespace sluice::cuda {

struct SourceFile {
  const char *name; // "Tile.cuh", as #include names it
  std::string_view text;
};

/// All files of codegen/cuda/device and codegen/cuda/library.
const std::vector<SourceFile> &librarySources();

} // namespace sluice::cuda
