// A generated kernel's body as a small program over one [rows, columns] domain: what to compute, and in which
// pass.
#pragma once

#include "dialects/sluice/Sluice.h"

namespace sluice {

/// Which element of a buffer belongs to position (row, column) of the domain.
struct IndexMap {
  enum class Rows {
    None,    // the same for every row
    All,     // row * rowStride
    Strided, // the row's number is taken apart along `dims`, outermost first
  };
  struct Dim {
    int64_t size, stride; // stride 0: the buffer repeats along this dimension
  };
  Rows rows = Rows::None;
  bool columns = false; // element + column, else the same for every column
  int64_t rowStride = 0;
  llvm::SmallVector<Dim> dims;

  bool operator==(const IndexMap &other) const;
  /// One element a position in row-major order, so that rows and columns may be read as one line.
  bool isWhole(int64_t columnCount) const { return rows == Rows::All && columns && rowStride == columnCount; }
  bool isScalar() const { return rows == Rows::None && !columns; }
};

/// One value of the program. Operands are earlier nodes.
struct KernelNode {
  enum class Kind {
    Input,     // a buffer, read through `index`
    Constant,  // `value`
    Map,       // the body of `map`, once an element
    RowSum,    // sum over the columns of one row
    RowMax,    // maximum over the columns of one row
    ColumnSum, // sum over the rows of one column ("columns" kernels)
    ColumnMax, // maximum over the rows of one column
  };
  Kind kind = Kind::Constant;
  llvm::SmallVector<int> operands;
  int buffer = -1;
  IndexMap index;
  double value = 0;
  MapOp map;
  bool rowVarying = false, columnVarying = false;
  /// Number of reductions on the longest path to this value: the pass over the data in which it can be
  /// computed.
  int level = 0;

  bool isMaximum() const { return kind == Kind::RowMax || kind == Kind::ColumnMax; }
  bool isReduction() const { return isMaximum() || kind == Kind::RowSum || kind == Kind::ColumnSum; }
  bool isOverRows() const { return kind == Kind::ColumnSum || kind == Kind::ColumnMax; }
};

/// One result: buffer `inputs + i` of the kernel.
struct KernelOutput {
  int node = -1;
  IndexMap index;
};

struct KernelProgram {
  bool byColumns = false; // a "columns" kernel: sums over rows, tiles are blocks of columns
  int64_t rows = 1, columns = 1;
  int inputs = 0; // buffers that are read; those of the outputs follow
  std::vector<KernelNode> nodes;
  std::vector<KernelOutput> outputs;

  /// Passes over a tile's data: 1 + the largest level that some output or reduction needs along the columns.
  int passes() const;
  /// Whether no value depends on the shape of the domain, so that all positions may be read as one line.
  bool isFlat() const;
  /// Whether output `output` may be written over input `input`: every read of an element comes before its
  /// write.
  bool mayOverwrite(int input, int output) const;
};

/// Reads a `rows` or `columns` kernel, whose settings hold `rows` and `columns`. Emits an error at the kernel
/// if its body holds anything else than map, reduce, broadcast, reshape and constant over that domain.
mlir::FailureOr<KernelProgram> readKernelProgram(KernelOp kernel);

/// How a kernel's domain is walked, as commands say it: "line" (rows and columns as one line), "rows",
/// "columns".
const char *domainName(const KernelProgram &program);

/// Whether `op` can stand in a generated kernel at all.
bool isKernelPrimitive(mlir::Operation *op);

} // namespace sluice
