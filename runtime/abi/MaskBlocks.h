// Which blocks of masks the CUDA library multiplies by themselves; the compiler says so to people.
#pragma once

#include <cstdint>

namespace sluice {

/// The tiles of a product over kept blocks have this side, or twice or four times it, and lie inside one
/// block.
inline constexpr int64_t blockTileSide = 16;

/// Whether products under a mask of blocks [rows, columns] run over its kept blocks alone; otherwise they
/// multiply the zeros.
constexpr bool hasBlockProducts(int64_t rows, int64_t columns) {
  return rows > 0 && columns > 0 && rows % blockTileSide == 0 && columns % blockTileSide == 0;
}

} // namespace sluice
