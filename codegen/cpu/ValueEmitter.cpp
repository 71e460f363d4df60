#include "codegen/cpu/ValueEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

#include <limits>

using namespace mlir;

namespace sluice::cpu {

CodeBuilder::CodeBuilder(OpBuilder &builder, Location loc, int64_t width)
    : builder(builder), loc(loc), width(width), f32(builder.getF32Type()),
      vectorType(VectorType::get({width}, f32)), i64(builder.getI64Type()),
      pointer(LLVM::LLVMPointerType::get(builder.getContext())) {}

Value CodeBuilder::integer(int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
}
Value CodeBuilder::number(double value) {
  return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(static_cast<float>(value)));
}
Value CodeBuilder::splat(double value) {
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(vectorType, static_cast<float>(value)));
}
Value CodeBuilder::broadcast(Value scalar) {
  return vector::BroadcastOp::create(builder, loc, VectorType::get({width}, scalar.getType()), scalar);
}
Value CodeBuilder::add(Value a, Value b) {
  return arith::AddIOp::create(builder, loc, a, b);
}
Value CodeBuilder::multiply(Value a, Value b) {
  return arith::MulIOp::create(builder, loc, a, b);
}
Value CodeBuilder::minimum(Value a, Value b) {
  return arith::MinSIOp::create(builder, loc, a, b);
}
Value CodeBuilder::equal(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
}

Value CodeBuilder::element(Value base, Value offset) {
  return LLVM::GEPOp::create(builder, loc, pointer, f32, base, LLVM::GEPArg(offset));
}

Value CodeBuilder::mask(int64_t count) {
  llvm::SmallVector<bool> lanes(width, false);
  std::fill_n(lanes.begin(), count, true);
  auto type = VectorType::get({width}, builder.getI1Type());
  return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, llvm::ArrayRef<bool>(lanes)));
}

Value CodeBuilder::loadVector(Value address, int64_t count) {
  if (count == width)
    return LLVM::LoadOp::create(builder, loc, vectorType, address, /*alignment=*/4);
  return LLVM::MaskedLoadOp::create(builder, loc, vectorType, address, mask(count), splat(0.0),
                                    builder.getI32IntegerAttr(4));
}

void CodeBuilder::storeVector(Value address, Value vector, int64_t count) {
  if (count == width)
    LLVM::StoreOp::create(builder, loc, vector, address, /*alignment=*/4);
  else
    LLVM::MaskedStoreOp::create(builder, loc, vector, address, mask(count), builder.getI32IntegerAttr(4));
}

Value CodeBuilder::loadScalar(Value address) {
  return LLVM::LoadOp::create(builder, loc, f32, address, 4);
}
void CodeBuilder::storeScalar(Value address, Value scalar) {
  LLVM::StoreOp::create(builder, loc, scalar, address, 4);
}

Value CodeBuilder::combine(bool maximum, Value a, Value b) {
  if (maximum)
    return arith::MaximumFOp::create(builder, loc, a, b);
  return arith::AddFOp::create(builder, loc, a, b, arith::FastMathFlags::contract);
}

Value CodeBuilder::combineLanes(bool maximum, Value vector) {
  for (int64_t half = width / 2; half >= 1; half /= 2) {
    llvm::SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < half; ++lane) {
      low.push_back(lane);
      high.push_back(lane + half);
    }
    vector = combine(maximum, vector::ShuffleOp::create(builder, loc, vector, vector, low),
                     vector::ShuffleOp::create(builder, loc, vector, vector, high));
  }
  return vector::ExtractOp::create(builder, loc, vector, llvm::ArrayRef<int64_t>{0});
}

ValueEmitter::ValueEmitter(CodeBuilder &code, const KernelProgram &program, llvm::ArrayRef<Value> buffers,
                           bool line)
    : code(code), program(program), buffers(buffers), line(line) {}

void ValueEmitter::enterKernel() {
  for (auto [number, node] : llvm::enumerate(program.nodes))
    if (!node.rowVarying && !node.columnVarying && node.level == 0)
      kernelScalars[number] = scalar(static_cast<int>(number));
  rowScalars.clear();
}

void ValueEmitter::enterRow(Value newRow) {
  row = newRow;
  rowScalars.clear();
  rowAddresses.clear();
  vectors.clear();
}

Value ValueEmitter::rowOffset(const IndexMap &index) {
  if (index.rows == IndexMap::Rows::All)
    return code.multiply(row, code.integer(index.rowStride));
  Value rest = row, offset = code.integer(0);
  for (const IndexMap::Dim &dim : llvm::reverse(index.dims)) {
    Value size = code.integer(dim.size);
    Value position = arith::RemSIOp::create(code.builder, code.loc, rest, size);
    rest = arith::DivSIOp::create(code.builder, code.loc, rest, size);
    if (dim.stride != 0)
      offset = code.add(offset, code.multiply(position, code.integer(dim.stride)));
  }
  return offset;
}

Value ValueEmitter::rowAddress(Value base, const IndexMap &index) {
  if (line || index.rows == IndexMap::Rows::None)
    return base;
  return code.element(base, rowOffset(index));
}

void ValueEmitter::prepare(llvm::ArrayRef<int> nodes) {
  llvm::SmallVector<int> pending(nodes);
  llvm::DenseSet<int> seen;
  while (!pending.empty()) {
    int number = pending.pop_back_val();
    if (!seen.insert(number).second)
      continue;
    const KernelNode &node = program.nodes[number];
    if (!node.columnVarying) {
      scalar(number);
      continue;
    }
    if (node.kind == KernelNode::Kind::Input && !rowAddresses.count(number))
      rowAddresses[number] = rowAddress(buffers[node.buffer], node.index);
    if (!node.isOverRows())
      pending.append(node.operands.begin(), node.operands.end());
  }
}

void ValueEmitter::enterVector(Value newColumn, int64_t count) {
  column = newColumn;
  lanes = count;
  vectors.clear();
}

Value ValueEmitter::scalar(int number) {
  if (auto found = kernelScalars.find(number); found != kernelScalars.end())
    return found->second;
  if (auto found = rowScalars.find(number); found != rowScalars.end())
    return found->second;
  const KernelNode &node = program.nodes[number];
  Value value;
  if (node.kind == KernelNode::Kind::Input) {
    value = code.loadScalar(rowAddress(buffers[node.buffer], node.index));
  } else {
    llvm::SmallVector<Value> operands;
    for (int operand : node.operands)
      operands.push_back(scalar(operand));
    value = compute(node, operands, /*vectorised=*/false);
  }
  rowScalars[number] = value;
  return value;
}

Value ValueEmitter::vector(int number) {
  if (auto found = vectors.find(number); found != vectors.end())
    return found->second;
  const KernelNode &node = program.nodes[number];
  Value value;
  if (!node.columnVarying) {
    value = code.broadcast(scalar(number));
  } else if (node.kind == KernelNode::Kind::Input) {
    value = code.loadVector(code.element(rowAddresses.lookup(number), column), lanes);
  } else {
    llvm::SmallVector<Value> operands;
    for (int operand : node.operands)
      operands.push_back(vector(operand));
    value = compute(node, operands, /*vectorised=*/true);
  }
  vectors[number] = value;
  return value;
}

Value ValueEmitter::outputAddress(int output) {
  const IndexMap &index = program.outputs[output].index;
  Value address = rowAddress(buffers[program.inputs + output], index);
  return index.columns ? code.element(address, column) : address;
}

Value ValueEmitter::compute(const KernelNode &node, llvm::ArrayRef<Value> operands, bool vectorised) {
  switch (node.kind) {
  case KernelNode::Kind::Constant:
    return vectorised ? code.splat(node.value) : code.number(node.value);
  case KernelNode::Kind::Map:
    return emitMap(node.map, operands, vectorised);
  default:
    llvm_unreachable("inputs are loaded and reductions are set by the loops");
  }
}

Value ValueEmitter::emitMap(MapOp map, llvm::ArrayRef<Value> operands, bool vectorised) {
  OpBuilder &builder = code.builder;
  Block &body = map.getBody().front();
  IRMapping mapping;
  mapping.map(body.getArguments(), operands);
  for (Operation &op : body.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && vectorised) {
      auto type = VectorType::get({code.width}, constant.getType());
      mapping.map(
          constant.getResult(),
          arith::ConstantOp::create(builder, code.loc, DenseElementsAttr::get(type, constant.getValue()))
              .getResult());
      continue;
    }
    Operation *clone = builder.clone(op, mapping);
    clone->setLoc(code.loc);
    if (vectorised)
      for (Value result : clone->getResults())
        result.setType(VectorType::get({code.width}, result.getType()));
    // Products and sums may become fused multiply-adds; nothing else changes.
    if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(clone))
      clone->setAttr("fastmath",
                     arith::FastMathFlagsAttr::get(builder.getContext(), arith::FastMathFlags::contract));
  }
  Value result = mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
  return result;
}

} // namespace sluice::cpu
