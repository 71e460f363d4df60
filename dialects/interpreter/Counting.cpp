#include "dialects/interpreter/Counting.h"

#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/Sluice.h"

using namespace mlir;

namespace sluice {

std::optional<std::vector<HostTensor>> evaluateCounting(Operation *op,
                                                        llvm::ArrayRef<const HostTensor *> operands) {
  Evaluation evaluation(op, operands);
  if (isa<ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp, BroadcastOp, ConstantOp>(op)) {
    if (failed(cast<Evaluable>(op).evaluate(evaluation)))
      return std::nullopt;
    return evaluation.takeResults();
  }
  counting::Frame frame{op, operands, evaluation.takeResults()};
  if (counting::runPrimitive(frame) || counting::runDense(frame) || counting::runRouting(frame) ||
      counting::runLoss(frame) || counting::runTraining(frame) || counting::runSparsity(frame))
    return std::move(frame.results);
  return std::nullopt;
}

} // namespace sluice
