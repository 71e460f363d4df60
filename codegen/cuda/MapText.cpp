#include "codegen/cuda/MapText.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;

namespace sluice::cuda {
namespace {

/// The expression of an op: {0}, {1}, {2} are its operands. Ops of dialects/sluice/ScalarRules.cpp.
const char *expressionOf(llvm::StringRef op) {
  return llvm::StringSwitch<const char *>(op)
      .Case("arith.negf", "-{0}")
      .Case("arith.addf", "{0} + {1}")
      .Case("arith.subf", "{0} - {1}")
      .Case("arith.mulf", "{0} * {1}")
      .Case("arith.divf", "{0} / {1}")
      .Case("arith.maximumf", "maximum({0}, {1})")
      .Case("arith.minimumf", "minimum({0}, {1})")
      .Case("arith.maxnumf", "fmaxf({0}, {1})")
      .Case("arith.minnumf", "fminf({0}, {1})")
      .Case("arith.select", "{0} ? {1} : {2}")
      .Case("math.exp", "expf({0})")
      .Case("math.log", "logf({0})")
      .Case("math.sqrt", "sqrtf({0})")
      .Case("math.rsqrt", "1.0f / sqrtf({0})")
      .Case("math.tanh", "tanhf({0})")
      .Case("math.erf", "erff({0})")
      .Case("math.sin", "sinf({0})")
      .Case("math.cos", "cosf({0})")
      .Case("math.absf", "fabsf({0})")
      .Case("math.powf", "powf({0}, {1})")
      .Default(nullptr);
}

/// Ordered comparisons are false, unordered ones true, where an operand is NaN.
const char *comparisonOf(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return "{0} == {1}";
  case arith::CmpFPredicate::OGT:
    return "{0} > {1}";
  case arith::CmpFPredicate::OGE:
    return "{0} >= {1}";
  case arith::CmpFPredicate::OLT:
    return "{0} < {1}";
  case arith::CmpFPredicate::OLE:
    return "{0} <= {1}";
  case arith::CmpFPredicate::ONE:
    return "{0} < {1} || {0} > {1}";
  case arith::CmpFPredicate::ORD:
    return "{0} == {0} && {1} == {1}";
  case arith::CmpFPredicate::UEQ:
    return "!({0} < {1} || {0} > {1})";
  case arith::CmpFPredicate::UGT:
    return "!({0} <= {1})";
  case arith::CmpFPredicate::UGE:
    return "!({0} < {1})";
  case arith::CmpFPredicate::ULT:
    return "!({0} >= {1})";
  case arith::CmpFPredicate::ULE:
    return "!({0} > {1})";
  case arith::CmpFPredicate::UNE:
    return "{0} != {1}";
  case arith::CmpFPredicate::UNO:
    return "{0} != {0} || {1} != {1}";
  case arith::CmpFPredicate::AlwaysTrue:
    return "true";
  case arith::CmpFPredicate::AlwaysFalse:
    return "false";
  }
  return "false";
}

} // namespace

std::string floatText(double value) {
  const float number = static_cast<float>(value);
  if (std::isnan(number))
    return "__int_as_float(0x7fffffff)";
  if (std::isinf(number))
    return number < 0 ? "negativeInfinity()" : "-negativeInfinity()";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.9g", static_cast<double>(number));
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text + "f";
}

void mapText(MapOp map, llvm::ArrayRef<std::string> operands, const std::string &result,
             llvm::function_ref<void(const llvm::Twine &)> line) {
  Block &body = map.getBody().front();
  llvm::DenseMap<Value, std::string> names;
  for (auto [argument, operand] : llvm::zip(body.getArguments(), operands))
    names[argument] = operand;
  const Value yielded = body.getTerminator()->getOperand(0);
  int temporaries = 0;
  for (Operation &op : body.without_terminator()) {
    Value value = op.getResult(0);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
        names[value] = floatText(number.getValueAsDouble());
      else
        names[value] = cast<IntegerAttr>(constant.getValue()).getValue().isZero() ? "false" : "true";
      continue;
    }
    auto comparison = dyn_cast<arith::CmpFOp>(op);
    const char *form =
        comparison ? comparisonOf(comparison.getPredicate()) : expressionOf(op.getName().getStringRef());
    assert(form && "ScalarRules.cpp knows an op that this table does not");
    std::string operandNames[3];
    for (auto [index, operand] : llvm::enumerate(op.getOperands()))
      operandNames[index] = names.lookup(operand);
    const bool last = value == yielded;
    names[value] = last ? result : llvm::formatv("{0}_{1}", result, temporaries++).str();
    const char *type = value.getType().isInteger(1) ? "bool" : "float";
    line(llvm::formatv("const {0} {1} = ", type, names[value]).str() +
         llvm::formatv(false, form, operandNames[0], operandNames[1], operandNames[2]).str() + ";");
  }
  if (names.lookup(yielded) != result) // an argument or a constant
    line("const float " + result + " = " + names.lookup(yielded) + ";");
}

} // namespace sluice::cuda
