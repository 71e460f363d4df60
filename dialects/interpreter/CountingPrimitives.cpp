// map, reduce, contract, lookups and the elementwise ops with counting scalars.
#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/Einsum.h"
#include "dialects/sluice/ops/Answers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cassert>

using namespace mlir;

namespace sluice::counting {
namespace {

bool holds(arith::CmpFPredicate predicate, double a, double b) {
  using P = arith::CmpFPredicate;
  switch (predicate) {
  case P::OEQ:
    return a == b;
  case P::OGT:
    return a > b;
  case P::OGE:
    return a >= b;
  case P::OLT:
    return a < b;
  case P::OLE:
    return a <= b;
  default:
    return a != b;
  }
}

/// One scalar op of a map's body.
Scalar scalarOp(Operation *op, llvm::ArrayRef<Scalar> x) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto exact = op->getAttrOfType<FloatAttr>(exactAttributeName))
      return exact.getValueAsDouble();
    if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
      return real.getValueAsDouble();
    return static_cast<double>(cast<IntegerAttr>(constant.getValue()).getValue().getZExtValue());
  }
  if (isa<arith::AddFOp>(op))
    return x[0] + x[1];
  if (isa<arith::SubFOp>(op))
    return x[0] - x[1];
  if (isa<arith::MulFOp>(op))
    return x[0] * x[1];
  if (isa<arith::DivFOp>(op))
    return x[0] / x[1];
  if (isa<arith::NegFOp>(op))
    return -x[0];
  if (isa<math::AbsFOp>(op))
    return std::fabs(x[0].value);
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
    return maximum(x[0], x[1]);
  if (isa<arith::MinimumFOp, arith::MinNumFOp>(op))
    return -maximum(-x[0], -x[1]);
  if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
    ++Tally::get().compare;
    return holds(compare.getPredicate(), x[0].value, x[1].value);
  }
  if (isa<arith::SelectOp>(op)) {
    ++Tally::get().compare;
    return x[0].value != 0 ? x[1] : x[2];
  }
  if (isa<math::ExpOp>(op))
    return exp(x[0]);
  if (isa<math::LogOp>(op))
    return log(x[0]);
  if (isa<math::SqrtOp>(op))
    return sqrt(x[0]);
  if (isa<math::RsqrtOp>(op))
    return reciprocalSqrt(x[0]);
  if (isa<math::TanhOp>(op))
    return transcendental(std::tanh(x[0].value));
  if (isa<math::ErfOp>(op))
    return transcendental(std::erf(x[0].value));
  if (isa<math::SinOp>(op))
    return transcendental(std::sin(x[0].value));
  if (isa<math::CosOp>(op))
    return transcendental(std::cos(x[0].value));
  assert(isa<math::PowFOp>(op) && "a scalar op without a counting meaning");
  return transcendental(std::pow(x[0].value, x[1].value));
}

void runMap(MapOp op, Frame &frame) {
  HostTensor &y = frame.out();
  Block &body = op.getBody().front();
  llvm::SmallVector<llvm::SmallVector<int64_t>> strides;
  for (const HostTensor *operand : frame.operands)
    strides.push_back(broadcastStrides(operand->shape, y.shape));
  forEachIndex(y.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    llvm::DenseMap<Value, Scalar> values;
    for (unsigned i = 0; i < frame.operands.size(); ++i)
      values[body.getArgument(i)] = frame.in(i)[offsetOf(index, strides[i])];
    for (Operation &inner : body.without_terminator()) {
      llvm::SmallVector<Scalar> operands;
      for (Value operand : inner.getOperands())
        operands.push_back(values.at(operand));
      values[inner.getResult(0)] = scalarOp(&inner, operands);
    }
    y[linear] = values.at(body.getTerminator()->getOperand(0)).value;
  });
}

void runReduce(ReduceOp op, Frame &frame) {
  const HostTensor &x = frame.in(0);
  HostTensor &y = frame.out();
  if (x.size() == y.size()) { // one element a result
    y.values = x.values;
    return;
  }
  const bool sums = op.getKind() != "max";
  if (!sums)
    y.values.assign(y.values.size(), -INFINITY);
  const llvm::SmallVector<int64_t> strides = broadcastStrides(y.shape, x.shape);
  forEachIndex(x.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    double &target = y[offsetOf(index, strides)];
    target = (sums ? Scalar(target) + x[linear] : maximum(target, x[linear])).value;
  });
}

void runContract(ContractOp op, Frame &frame) {
  std::string error;
  const Einsum equation = *Einsum::parse(op.getEquation(), error);
  const HostTensor &a = frame.in(0), &b = frame.in(1);
  HostTensor &c = frame.out();
  llvm::SmallVector<int64_t> sizes, inA, inB, inC;
  const llvm::SmallVector<int64_t> ownA = stridesOf(a.shape), ownB = stridesOf(b.shape),
                                   ownC = stridesOf(c.shape);
  for (char letter : equation.c + equation.depth()) {
    const size_t atA = equation.a.find(letter), atB = equation.b.find(letter), atC = equation.c.find(letter);
    sizes.push_back(atA != std::string::npos ? a.shape[atA] : b.shape[atB]);
    inA.push_back(atA != std::string::npos ? ownA[atA] : 0);
    inB.push_back(atB != std::string::npos ? ownB[atB] : 0);
    inC.push_back(atC != std::string::npos ? ownC[atC] : 0);
  }
  forEachIndex(sizes, [&](llvm::ArrayRef<int64_t> index, int64_t) {
    multiplyAdd(c[offsetOf(index, inC)], a[offsetOf(index, inA)], b[offsetOf(index, inB)]);
  });
}

void copyRows(const HostTensor &ids, const HostTensor &x, HostTensor &y) {
  const int64_t width = x.size() / x.shape.front();
  for (int64_t i = 0; i < ids.size(); ++i) {
    indexOnce();
    std::copy_n(&x.values[static_cast<int64_t>(ids[i]) * width], width, &y.values[i * width]);
  }
}

void addRows(const HostTensor &ids, const HostTensor &dy, HostTensor &dx) {
  const int64_t width = dx.size() / dx.shape.front();
  for (int64_t i = 0; i < ids.size(); ++i) {
    indexOnce();
    for (int64_t j = 0; j < width; ++j) {
      double &target = dx[static_cast<int64_t>(ids[i]) * width + j];
      target = (Scalar(target) + dy[i * width + j]).value;
    }
  }
}

} // namespace

bool runPrimitive(Frame &frame) {
  if (auto op = dyn_cast<MapOp>(frame.op))
    return runMap(op, frame), true;
  if (auto op = dyn_cast<ReduceOp>(frame.op))
    return runReduce(op, frame), true;
  if (auto op = dyn_cast<ContractOp>(frame.op))
    return runContract(op, frame), true;
  if (isa<EmbeddingOp>(frame.op))
    return copyRows(frame.in(0), frame.in(1), frame.out()), true;
  if (isa<GatherOp>(frame.op))
    return copyRows(frame.in(1), frame.in(0), frame.out()), true;
  if (isa<EmbeddingGradientOp, GatherGradientOp>(frame.op))
    return addRows(frame.in(0), frame.in(1), frame.out()), true;
  return false;
}

} // namespace sluice::counting
