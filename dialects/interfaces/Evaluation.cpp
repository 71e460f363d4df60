#include "dialects/interfaces/Evaluation.h"

#include "dialects/sluice/Sluice.h"

namespace sluice {

HostTensor::HostTensor(llvm::ArrayRef<int64_t> shape, double value) : shape(shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  values.assign(static_cast<size_t>(elements), value);
}

int64_t HostTensor::columns() const {
  return shape.empty() ? 1 : shape.back();
}
int64_t HostTensor::rows() const {
  int64_t product = 1;
  for (size_t axis = 0; axis + 1 < shape.size(); ++axis)
    product *= shape[axis];
  return product;
}

Evaluation::Evaluation(mlir::Operation *op, llvm::ArrayRef<const HostTensor *> operands)
    : operands(operands) {
  for (mlir::Type type : op->getResultTypes()) {
    if (auto routing = llvm::dyn_cast<RoutingType>(type))
      results.emplace_back(llvm::ArrayRef<int64_t>{routing.bufferSize()});
    else if (auto mask = llvm::dyn_cast<MaskType>(type))
      results.emplace_back(mask.getShape());
    else
      results.emplace_back(llvm::cast<mlir::RankedTensorType>(type).getShape());
  }
}

} // namespace sluice
