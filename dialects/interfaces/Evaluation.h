// Values of the interpreter: float64 tensors on the host, and the frame in which one op is evaluated.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace sluice {

/// A dense row-major tensor. Integers are stored as exact doubles. A routing value is the flat routing buffer
/// of docs/commands.md: ids[T][K], slot_row[T][K], row_slot[R], offsets[E+1]. A mask is a tensor of its shape
/// with 1 where a weight is kept and 0 elsewhere.
struct HostTensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;

  HostTensor() = default;
  /// A tensor of `shape` filled with `value`.
  explicit HostTensor(llvm::ArrayRef<int64_t> shape, double value = 0.0);
  int64_t size() const { return static_cast<int64_t>(values.size()); }
  /// Product of all dimensions but the last (1 for rank 0 and 1) and the last dimension (1 for rank 0).
  int64_t rows() const;
  int64_t columns() const;
  double &operator[](int64_t index) { return values[static_cast<size_t>(index)]; }
  double operator[](int64_t index) const { return values[static_cast<size_t>(index)]; }
};

/// The frame of one op: its operands' values and a place for its results.
class Evaluation {
public:
  Evaluation(mlir::Operation *op, llvm::ArrayRef<const HostTensor *> operands);
  const HostTensor &operand(unsigned index) const { return *operands[index]; }
  /// The result's tensor, created with the result type's static shape and zeros.
  HostTensor &result(unsigned index) { return results[index]; }
  std::vector<HostTensor> takeResults() { return std::move(results); }

private:
  llvm::SmallVector<const HostTensor *> operands;
  std::vector<HostTensor> results;
};

} // namespace sluice
