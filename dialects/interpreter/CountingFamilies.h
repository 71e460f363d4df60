// The counting meanings by family; each function says whether it knows the op.
#pragma once

#include "dialects/interpreter/Counting.h"

namespace sluice::counting {

/// What one op's loops read and write.
struct Frame {
  mlir::Operation *op;
  llvm::ArrayRef<const HostTensor *> operands;
  std::vector<HostTensor> results;

  const HostTensor &in(unsigned index) const { return *operands[index]; }
  HostTensor &out(unsigned index = 0) { return results[index]; }
};

bool runPrimitive(Frame &frame);
bool runDense(Frame &frame);
bool runRouting(Frame &frame);
bool runLoss(Frame &frame);
bool runTraining(Frame &frame);
bool runSparsity(Frame &frame);

/// Softmax of a row: maximum, difference, exponential, sum, quotient a score. `target` may be `row`.
void softmaxRow(const double *row, int64_t size, double *target);
/// maximum + log(sum of exponentials); the exponentials and their sum are handed out if asked for.
Scalar logSumExpRow(const double *row, int64_t size, std::vector<Scalar> *exponentials = nullptr,
                    Scalar *sum = nullptr);

} // namespace sluice::counting
