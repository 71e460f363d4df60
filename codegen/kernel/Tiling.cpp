#include "codegen/kernel/Tiling.h"

namespace sluice {
namespace {

constexpr int64_t tileBytes = 64 * 1024;
constexpr int64_t columnsPerTile = 32; // two cache lines: what one load of the widest vectors reads, twice
constexpr int64_t lineMultiple = 64;   // tiles of a line start on whole vectors
constexpr int64_t elementBytes = 4;

int64_t tileCount(int64_t extent, int64_t size) {
  return (extent + size - 1) / size;
}

/// Buffers with an element a position.
int64_t fullBuffers(const KernelProgram &program) {
  int64_t count = 0;
  for (const KernelNode &node : program.nodes)
    count += node.kind == KernelNode::Kind::Input && node.rowVarying &&
             (node.columnVarying || program.columns == 1);
  for (const KernelOutput &output : program.outputs)
    count += output.index.columns || program.columns == 1;
  return std::max<int64_t>(count, 1);
}

} // namespace

KernelTiling tilingOf(const KernelProgram &program) {
  if (program.byColumns)
    return {KernelTiling::Shape::Columns, columnsPerTile, tileCount(program.columns, columnsPerTile)};
  int64_t elements = tileBytes / (elementBytes * fullBuffers(program));
  if (program.isFlat()) {
    int64_t size = std::max(lineMultiple, elements / lineMultiple * lineMultiple);
    return {KernelTiling::Shape::Line, size, tileCount(program.rows * program.columns, size)};
  }
  int64_t size = std::clamp<int64_t>(elements / program.columns, 1, std::max<int64_t>(program.rows, 1));
  return {KernelTiling::Shape::Rows, size, tileCount(program.rows, size)};
}

} // namespace sluice
