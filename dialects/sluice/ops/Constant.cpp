// constant: a tensor filled with one number.
#include "dialects/sluice/ops/Answers.h"

using namespace mlir;

namespace sluice {

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                           ValueRange operands, DictionaryAttr attributes,
                                           OpaqueProperties properties, RegionRange regions,
                                           llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  for (int64_t size : op.getShape())
    if (size < 0)
      return emitOptionalError(location, "'sluice.constant' op sizes must not be negative, found ",
                               listText(op.getShape()));
  types.push_back(RankedTensorType::get(op.getShape(), Float32Type::get(context)));
  return success();
}

OpCounts ConstantOp::count() {
  return {};
}
RecomputeCost ConstantOp::recomputeCost() {
  return RecomputeCost::Free;
}

LogicalResult ConstantOp::evaluate(Evaluation &evaluation) {
  HostTensor &y = evaluation.result(0);
  y.values.assign(y.values.size(), getValue().convertToDouble());
  return success();
}

std::string ConstantOp::commandKind() {
  return "fill";
}
void ConstantOp::commandAttributes(NamedAttrList &attributes) {
  setNumber(attributes, getContext(), "value", getValue().convertToDouble());
}
LogicalResult ConstantOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
