#include "dialects/sluice/AdjointUtils.h"

using namespace mlir;

namespace sluice {

Value reshapeLike(OpBuilder &builder, Location loc, Value value, Type type) {
  if (value.getType() == type)
    return value;
  return ReshapeOp::create(builder, loc, value, cast<RankedTensorType>(type).getShape());
}

Value reduceLike(OpBuilder &builder, Location loc, Value value, Type type) {
  llvm::ArrayRef<int64_t> from = cast<RankedTensorType>(value.getType()).getShape();
  llvm::ArrayRef<int64_t> to = cast<RankedTensorType>(type).getShape();
  const int64_t lead = static_cast<int64_t>(from.size() - to.size());
  llvm::SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < static_cast<int64_t>(from.size()); ++axis)
    if (from[axis] != 1 && (axis < lead || to[axis - lead] == 1))
      axes.push_back(axis);
  if (!axes.empty())
    value = ReduceOp::create(builder, loc, value, axes);
  return reshapeLike(builder, loc, value, type);
}

Value zerosLike(OpBuilder &builder, Location loc, Type type) {
  return ConstantOp::create(builder, loc, llvm::APFloat(0.0), cast<RankedTensorType>(type).getShape());
}

} // namespace sluice
