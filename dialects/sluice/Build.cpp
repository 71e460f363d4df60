#include "dialects/sluice/Build.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace sluice {

MapOp buildMap(OpBuilder &builder, Location loc, ValueRange inputs, ScalarFunction body) {
  auto map = MapOp::create(builder, loc, inputs);
  Block &block = map.getBody().emplaceBlock();
  for (Value input : inputs)
    block.addArgument(cast<RankedTensorType>(input.getType()).getElementType(), loc);
  // Ops of the body belong to the map: whoever listens to `builder` hears of the map alone.
  OpBuilder inner = OpBuilder::atBlockEnd(&block);
  Value result = body(inner, loc, block.getArguments());
  YieldOp::create(inner, loc, ValueRange{result});
  return map;
}

Value reduceRows(OpBuilder &builder, Location loc, Value x, llvm::StringRef kind) {
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  return ReduceOp::create(builder, loc, x, llvm::ArrayRef<int64_t>{rank - 1}, kind);
}

Value Scalars::constant(double value, Type type) {
  auto constant = arith::ConstantOp::create(builder, loc, FloatAttr::get(type, value));
  if (cast<FloatAttr>(constant.getValue()).getValueAsDouble() != value)
    constant->setAttr(exactAttributeName, builder.getF64FloatAttr(value));
  return constant;
}
Value Scalars::add(Value a, Value b) {
  return arith::AddFOp::create(builder, loc, a, b);
}
Value Scalars::subtract(Value a, Value b) {
  return arith::SubFOp::create(builder, loc, a, b);
}
Value Scalars::multiply(Value a, Value b) {
  return arith::MulFOp::create(builder, loc, a, b);
}
Value Scalars::divide(Value a, Value b) {
  return arith::DivFOp::create(builder, loc, a, b);
}
Value Scalars::negate(Value a) {
  return arith::NegFOp::create(builder, loc, a);
}
Value Scalars::maximum(Value a, Value b) {
  return arith::MaximumFOp::create(builder, loc, a, b);
}
Value Scalars::exponential(Value a) {
  return math::ExpOp::create(builder, loc, a);
}
Value Scalars::greater(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, a, b);
}
Value Scalars::equal(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
}
Value Scalars::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}
Value Scalars::sigmoid(Value a) {
  Value one = constant(1.0, a.getType());
  return divide(one, add(one, exponential(negate(a))));
}

} // namespace sluice
