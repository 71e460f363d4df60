// How a generated kernel's domain is cut into tiles. Tiles depend on shapes only, so results do not depend on
// threads.
#pragma once

#include "codegen/kernel/Program.h"

namespace sluice {

struct KernelTiling {
  enum class Shape {
    Rows,    // a tile is `size` whole rows
    Line,    // the domain is one line of rows * columns elements, a tile is `size` of them
    Columns, // a tile is `size` columns, all rows
  };
  Shape shape = Shape::Rows;
  int64_t size = 1;
  int64_t tiles = 1;
};

/// Tiles that touch about 64 KiB of data, at least one row.
KernelTiling tilingOf(const KernelProgram &program);

} // namespace sluice
