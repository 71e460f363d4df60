// The table of scalar ops. A new one is a line here.
#include "dialects/sluice/ScalarBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace sluice {
namespace {

using A = ScalarAdjoint;

Value first(Operation *op) {
  return op->getOperand(0);
}
Value second(Operation *op) {
  return op->getOperand(1);
}
Value result(Operation *op) {
  return op->getResult(0);
}
Value number(A &a, double value, Value like) {
  return a.constant(value, like.getType());
}

double constantValue(Operation *op, const double *) {
  if (auto exact = op->getAttrOfType<FloatAttr>(exactAttributeName))
    return exact.getValueAsDouble();
  Attribute value = cast<arith::ConstantOp>(op).getValue();
  if (auto real = dyn_cast<FloatAttr>(value))
    return real.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(value).getValue().getZExtValue());
}

double compare(Operation *op, const double *x) {
  const bool unordered = std::isnan(x[0]) || std::isnan(x[1]);
  using P = arith::CmpFPredicate;
  switch (cast<arith::CmpFOp>(op).getPredicate()) {
  case P::AlwaysFalse:
    return false;
  case P::OEQ:
    return !unordered && x[0] == x[1];
  case P::OGT:
    return !unordered && x[0] > x[1];
  case P::OGE:
    return !unordered && x[0] >= x[1];
  case P::OLT:
    return !unordered && x[0] < x[1];
  case P::OLE:
    return !unordered && x[0] <= x[1];
  case P::ONE:
    return !unordered && x[0] != x[1];
  case P::ORD:
    return !unordered;
  case P::UEQ:
    return unordered || x[0] == x[1];
  case P::UGT:
    return unordered || x[0] > x[1];
  case P::UGE:
    return unordered || x[0] >= x[1];
  case P::ULT:
    return unordered || x[0] < x[1];
  case P::ULE:
    return unordered || x[0] <= x[1];
  case P::UNE:
    return unordered || x[0] != x[1];
  case P::UNO:
    return unordered;
  case P::AlwaysTrue:
    return true;
  }
  return false;
}

/// IEEE 754 maximum: a NaN operand gives NaN.
double maximum(Operation *, const double *x) {
  return std::isnan(x[0]) || std::isnan(x[1]) ? std::nan("") : std::fmax(x[0], x[1]);
}
double minimum(Operation *, const double *x) {
  return std::isnan(x[0]) || std::isnan(x[1]) ? std::nan("") : std::fmin(x[0], x[1]);
}

/// The cotangent goes to the operand that was taken; at a tie to the second.
void deriveChoice(A &a, Value taken, Value other, Value condition, Value g) {
  Value zero = number(a, 0.0, g);
  if (a.isActive(taken))
    a.accumulate(taken, a.select(condition, g, zero));
  if (a.isActive(other))
    a.accumulate(other, a.select(condition, zero, g));
}
void deriveMaximum(A &a, Operation *op, Value g) {
  deriveChoice(a, first(op), second(op), a.greater(first(op), second(op)), g);
}
void deriveMinimum(A &a, Operation *op, Value g) {
  deriveChoice(a, first(op), second(op), a.greater(second(op), first(op)), g);
}
void deriveSelect(A &a, Operation *op, Value g) {
  deriveChoice(a, op->getOperand(1), op->getOperand(2), first(op), g);
}

void deriveMultiply(A &a, Operation *op, Value g) {
  if (a.isActive(first(op)))
    a.accumulate(first(op), a.multiply(g, second(op)));
  if (a.isActive(second(op)))
    a.accumulate(second(op), a.multiply(g, first(op)));
}

void deriveDivide(A &a, Operation *op, Value g) {
  Value share = a.divide(g, second(op));
  a.accumulate(first(op), share);
  if (a.isActive(second(op)))
    a.accumulate(second(op), a.negate(a.multiply(share, result(op))));
}

void derivePower(A &a, Operation *op, Value g) {
  Value base = first(op), exponent = second(op);
  if (a.isActive(base)) {
    Value lower = math::PowFOp::create(a.builder, a.loc, base, a.subtract(exponent, number(a, 1.0, g)));
    a.accumulate(base, a.multiply(g, a.multiply(exponent, lower)));
  }
  if (a.isActive(exponent))
    a.accumulate(exponent,
                 a.multiply(g, a.multiply(result(op), math::LogOp::create(a.builder, a.loc, base))));
}

const double twoOverRootPi = 2.0 * std::numbers::inv_sqrtpi;

// Name, class, meaning, derivative (y = result, g = its cotangent).
const ScalarRule rules[] = {
    {"arith.constant", nullptr, constantValue, nullptr},
    {"arith.negf", nullptr, [](Operation *, const double *x) { return -x[0]; },
     [](A &a, Operation *op, Value g) { a.accumulate(first(op), a.negate(g)); }},
    {"arith.addf", &ClassCounts::add, [](Operation *, const double *x) { return x[0] + x[1]; },
     [](A &a, Operation *op, Value g) {
       a.accumulate(first(op), g);
       a.accumulate(second(op), g);
     }},
    {"arith.subf", &ClassCounts::add, [](Operation *, const double *x) { return x[0] - x[1]; },
     [](A &a, Operation *op, Value g) {
       a.accumulate(first(op), g);
       if (a.isActive(second(op)))
         a.accumulate(second(op), a.negate(g));
     }},
    {"arith.mulf", &ClassCounts::multiply, [](Operation *, const double *x) { return x[0] * x[1]; },
     deriveMultiply},
    {"arith.divf", &ClassCounts::divide, [](Operation *, const double *x) { return x[0] / x[1]; },
     deriveDivide},
    {"arith.maximumf", &ClassCounts::compare, maximum, deriveMaximum},
    {"arith.minimumf", &ClassCounts::compare, minimum, deriveMinimum},
    {"arith.maxnumf", &ClassCounts::compare,
     [](Operation *, const double *x) { return std::fmax(x[0], x[1]); }, deriveMaximum},
    {"arith.minnumf", &ClassCounts::compare,
     [](Operation *, const double *x) { return std::fmin(x[0], x[1]); }, deriveMinimum},
    {"arith.cmpf", &ClassCounts::compare, compare, nullptr},
    {"arith.select", &ClassCounts::compare,
     [](Operation *, const double *x) { return x[0] != 0 ? x[1] : x[2]; }, deriveSelect},
    // y' = y
    {"math.exp", &ClassCounts::transcendental, [](Operation *, const double *x) { return std::exp(x[0]); },
     [](A &a, Operation *op, Value g) { a.accumulate(first(op), a.multiply(g, result(op))); }},
    {"math.log", &ClassCounts::transcendental, [](Operation *, const double *x) { return std::log(x[0]); },
     [](A &a, Operation *op, Value g) { a.accumulate(first(op), a.divide(g, first(op))); }},
    // y' = 1 / (2 y)
    {"math.sqrt", &ClassCounts::divide, [](Operation *, const double *x) { return std::sqrt(x[0]); },
     [](A &a, Operation *op, Value g) { a.accumulate(first(op), a.divide(a.multiply(g, 0.5), result(op))); }},
    // y' = -y^3 / 2
    {"math.rsqrt", &ClassCounts::divide, [](Operation *, const double *x) { return 1.0 / std::sqrt(x[0]); },
     [](A &a, Operation *op, Value g) {
       Value y = result(op);
       a.accumulate(first(op), a.multiply(a.multiply(g, -0.5), a.multiply(y, a.multiply(y, y))));
     }},
    // y' = 1 - y^2
    {"math.tanh", &ClassCounts::transcendental, [](Operation *, const double *x) { return std::tanh(x[0]); },
     [](A &a, Operation *op, Value g) {
       Value y = result(op);
       a.accumulate(first(op), a.multiply(g, a.subtract(number(a, 1.0, g), a.multiply(y, y))));
     }},
    // y' = 2 / sqrt(pi) exp(-x^2)
    {"math.erf", &ClassCounts::transcendental, [](Operation *, const double *x) { return std::erf(x[0]); },
     [](A &a, Operation *op, Value g) {
       Value x = first(op);
       a.accumulate(x, a.multiply(g, a.multiply(a.exponential(a.negate(a.multiply(x, x))), twoOverRootPi)));
     }},
    {"math.sin", &ClassCounts::transcendental, [](Operation *, const double *x) { return std::sin(x[0]); },
     [](A &a, Operation *op, Value g) {
       a.accumulate(first(op), a.multiply(g, math::CosOp::create(a.builder, a.loc, first(op))));
     }},
    {"math.cos", &ClassCounts::transcendental, [](Operation *, const double *x) { return std::cos(x[0]); },
     [](A &a, Operation *op, Value g) {
       a.accumulate(first(op), a.negate(a.multiply(g, math::SinOp::create(a.builder, a.loc, first(op)))));
     }},
    {"math.absf", nullptr, [](Operation *, const double *x) { return std::fabs(x[0]); },
     [](A &a, Operation *op, Value g) {
       a.accumulate(first(op), a.select(a.greater(first(op), number(a, 0.0, g)), g, a.negate(g)));
     }},
    {"math.powf", &ClassCounts::transcendental,
     [](Operation *, const double *x) { return std::pow(x[0], x[1]); }, derivePower},
};

} // namespace

const ScalarRule *scalarRule(Operation *op) {
  for (const ScalarRule &rule : rules)
    if (op->getName().getStringRef() == rule.name)
      return &rule;
  return nullptr;
}

} // namespace sluice
