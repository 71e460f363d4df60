// swiglu and the plain activations: elementwise functions with a name.
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/Build.h"
#include "dialects/sluice/ops/Answers.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace sluice {

// ----- swiglu
// ----------------------------------------------------------------------------------------------------

LogicalResult SwiGluOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                         DictionaryAttr, OpaqueProperties, RegionRange,
                                         llvm::SmallVectorImpl<Type> &types) {
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult SwiGluOp::verify() {
  return requireShape(*this, "up", getUp(), dimsOf(getGate().getType()), "the shape of gate");
}

OpCounts SwiGluOp::count() {
  ClassCounts each;
  each.transcendental = each.add = each.divide = 1;
  each.multiply = 2;
  return OpCounts::same(each.times(elementCount(getY())));
}

RecomputeCost SwiGluOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult SwiGluOp::evaluate(Evaluation &evaluation) {
  const HostTensor &gate = evaluation.operand(0), &up = evaluation.operand(1);
  HostTensor &y = evaluation.result(0);
  for (int64_t i = 0; i < y.size(); ++i)
    y[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
  return success();
}

LogicalResult SwiGluOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  if (adjoint.needed(0)) {
    // With s = sigmoid(z): silu'(z) = s (1 + z (1 - s)).
    auto body = [](OpBuilder &builder, Location loc, ValueRange v) {
      Scalars scalars(builder, loc);
      Value one = scalars.constant(1.0, v[0].getType()), s = scalars.sigmoid(v[0]);
      Value slope = scalars.multiply(s, scalars.add(one, scalars.multiply(v[0], scalars.subtract(one, s))));
      return scalars.multiply(scalars.multiply(v[2], v[1]), slope);
    };
    adjoint.setOperandCotangent(0, buildMap(adjoint.builder, adjoint.loc, {getGate(), getUp(), dy}, body));
  }
  if (adjoint.needed(1)) {
    auto body = [](OpBuilder &builder, Location loc, ValueRange v) {
      Scalars scalars(builder, loc);
      return scalars.multiply(v[1], scalars.multiply(v[0], scalars.sigmoid(v[0])));
    };
    adjoint.setOperandCotangent(1, buildMap(adjoint.builder, adjoint.loc, {getGate(), dy}, body));
  }
  return success();
}

std::string SwiGluOp::commandKind() {
  return "";
}
void SwiGluOp::commandAttributes(NamedAttrList &) {}

LogicalResult SwiGluOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  results.push_back(
      buildMap(builder, getLoc(), {getGate(), getUp()}, [](OpBuilder &inner, Location loc, ValueRange v) {
        Scalars scalars(inner, loc);
        return scalars.multiply(scalars.multiply(v[0], scalars.sigmoid(v[0])), v[1]);
      }));
  return success();
}

// ----- activation
// ------------------------------------------------------------------------------------------------

namespace {

/// One named function: its float64 meaning, its cost an element, and its body.
struct Activation {
  llvm::StringLiteral name;
  double (*evaluate)(double x);
  ClassCounts each;
  Value (*body)(Scalars &scalars, Value x);
};

const double geluTanhFactor = std::sqrt(2.0 / std::numbers::pi), geluTanhCubic = 0.044715;

const Activation activations[] = {
    {"silu",
     [](double x) { return x / (1 + std::exp(-x)); },
     {.add = 1, .multiply = 1, .divide = 1, .transcendental = 1},
     [](Scalars &s, Value x) { return s.multiply(x, s.sigmoid(x)); }},
    {"gelu",
     [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); },
     {.add = 1, .multiply = 3, .transcendental = 1},
     [](Scalars &s, Value x) {
       Value erf = math::ErfOp::create(s.builder, s.loc, s.multiply(x, 1 / std::numbers::sqrt2));
       return s.multiply(s.multiply(x, 0.5), s.add(s.constant(1.0, x.getType()), erf));
     }},
    {"gelu_tanh",
     [](double x) { return 0.5 * x * (1 + std::tanh(geluTanhFactor * (x + geluTanhCubic * x * x * x))); },
     {.add = 2, .multiply = 6, .transcendental = 1},
     [](Scalars &s, Value x) {
       Value cube = s.multiply(s.multiply(s.multiply(x, x), x), geluTanhCubic);
       Value inner = s.multiply(s.add(x, cube), geluTanhFactor);
       Value tanh = math::TanhOp::create(s.builder, s.loc, inner);
       return s.multiply(s.multiply(x, 0.5), s.add(s.constant(1.0, x.getType()), tanh));
     }},
    {"relu",
     [](double x) { return x > 0 ? x : 0 * x; },
     {.compare = 1},
     [](Scalars &s, Value x) { return s.maximum(x, s.constant(0.0, x.getType())); }},
    {"relu_squared",
     [](double x) { return x > 0 ? x * x : 0 * x; },
     {.multiply = 1, .compare = 1},
     [](Scalars &s, Value x) {
       Value positive = s.maximum(x, s.constant(0.0, x.getType()));
       return s.multiply(positive, positive);
     }},
    {"tanh",
     [](double x) { return std::tanh(x); },
     {.transcendental = 1},
     [](Scalars &s, Value x) -> Value { return math::TanhOp::create(s.builder, s.loc, x); }},
    {"sigmoid",
     [](double x) { return 1 / (1 + std::exp(-x)); },
     {.add = 1, .divide = 1, .transcendental = 1},
     [](Scalars &s, Value x) { return s.sigmoid(x); }},
};

const Activation *activationByName(llvm::StringRef name) {
  for (const Activation &activation : activations)
    if (activation.name == name)
      return &activation;
  return nullptr;
}

} // namespace

LogicalResult ActivationOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                             DictionaryAttr, OpaqueProperties, RegionRange,
                                             llvm::SmallVectorImpl<Type> &types) {
  types.push_back(operands[0].getType());
  return success();
}

LogicalResult ActivationOp::verify() {
  if (activationByName(getFunction()))
    return success();
  InFlightDiagnostic diagnostic = ruleError(*this) << "function must be one of ";
  llvm::interleaveComma(activations, diagnostic, [&](const Activation &known) { diagnostic << known.name; });
  return diagnostic << "; found '" << getFunction() << "'";
}

OpCounts ActivationOp::count() {
  return OpCounts::same(activationByName(getFunction())->each.times(elementCount(getY())));
}

RecomputeCost ActivationOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult ActivationOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  HostTensor &y = evaluation.result(0);
  const Activation *activation = activationByName(getFunction());
  for (int64_t i = 0; i < y.size(); ++i)
    y[i] = activation->evaluate(x[i]);
  return success();
}

LogicalResult ActivationOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy || !adjoint.needed(0))
    return success();
  auto body = [&](OpBuilder &builder, Location loc, ValueRange v) {
    Scalars scalars(builder, loc);
    return activationByName(getFunction())->body(scalars, v[0]);
  };
  FailureOr<Value> dx = buildMapAdjoint(adjoint.builder, adjoint.loc, getX(), body, 0, dy);
  if (failed(dx))
    return failure();
  adjoint.setOperandCotangent(0, *dx);
  return success();
}

std::string ActivationOp::commandKind() {
  return "";
}
void ActivationOp::commandAttributes(NamedAttrList &) {}

LogicalResult ActivationOp::decompose(OpBuilder &builder, llvm::SmallVectorImpl<Value> &results) {
  results.push_back(buildMap(builder, getLoc(), getX(), [&](OpBuilder &inner, Location loc, ValueRange v) {
    Scalars scalars(inner, loc);
    return activationByName(getFunction())->body(scalars, v[0]);
  }));
  return success();
}

} // namespace sluice
