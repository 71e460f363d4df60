#include "tests/dialects/TestGraph.h"

#include "dialects/interpreter/Counting.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace sluice::test {
namespace {

HostTensor constantTensor(Value like, double value) {
  return HostTensor(cast<RankedTensorType>(like.getType()).getShape(), value);
}

/// The frame of one op while the graph is walked backwards.
class Frame : public AdjointBuilder {
public:
  Frame(OpBuilder &builder, Operation *op, const llvm::DenseMap<Value, Value> &cotangents)
      : AdjointBuilder(builder, op->getLoc()), op(op), cotangents(cotangents) {}
  Value cotangent(unsigned index) const override { return cotangents.lookup(op->getResult(index)); }
  bool needed(unsigned index) const override {
    auto type = dyn_cast<RankedTensorType>(op->getOperand(index).getType());
    return type && isa<FloatType>(type.getElementType());
  }
  void setOperandCotangent(unsigned index, Value cotangent) override {
    EXPECT_TRUE(given.try_emplace(index, cotangent).second) << "operand " << index << " got two cotangents";
    EXPECT_EQ(cotangent.getType(), op->getOperand(index).getType()) << "cotangent of operand " << index;
  }

  Operation *op;
  const llvm::DenseMap<Value, Value> &cotangents;
  llvm::DenseMap<unsigned, Value> given;
};

/// Forward values that `added` ops read must be declared.
void checkReads(Operation *forward, llvm::ArrayRef<Operation *> added, Frame &frame) {
  auto differentiable = cast<Differentiable>(forward);
  llvm::DenseSet<Value> allowed;
  for (int64_t index : differentiable.adjointReadsOperands())
    allowed.insert(forward->getOperand(index));
  for (int64_t index : differentiable.adjointReadsResults())
    allowed.insert(forward->getResult(index));
  for (Value operand : forward->getOperands())
    if (isa<MaskType>(operand.getType()))
      allowed.insert(operand);
  for (OpResult result : forward->getResults())
    if (Value cotangent = frame.cotangent(result.getResultNumber()))
      allowed.insert(cotangent);
  llvm::DenseSet<Operation *> own(added.begin(), added.end());
  for (Operation *op : added)
    for (Value operand : op->getOperands())
      EXPECT_TRUE(allowed.contains(operand) || own.contains(operand.getDefiningOp()))
          << "the adjoint of " << forward->getName().getStringRef().str() << " reads an undeclared value in "
          << op->getName().getStringRef().str();
}

/// Whether some target is not counted or a norm is not finite: then less is done than the shapes allow.
bool dependsOnData(Operation *op, llvm::ArrayRef<const HostTensor *> operands) {
  auto ignored = op->getAttrOfType<IntegerAttr>("ignore_index");
  for (const HostTensor *operand : operands)
    for (double value : operand->values)
      if ((ignored && value == static_cast<double>(ignored.getInt())) || !std::isfinite(value))
        return true;
  return false;
}

/// The second opinion: the op runs with counting scalars, which must give the values of `evaluate` and the
/// op's count.
void checkCounting(Operation *op, llvm::ArrayRef<const HostTensor *> operands,
                   llvm::ArrayRef<HostTensor> results) {
  const std::string name = op->getName().getStringRef().str();
  Tally tally;
  std::optional<std::vector<HostTensor>> counted = evaluateCounting(op, operands);
  ASSERT_TRUE(counted.has_value())
      << name << " has no counting meaning: write it in dialects/interpreter/Counting*.cpp";
  const ClassCounts found = tally.counts();
  OpCounts counts = cast<Countable>(op).count();
  ClassCounts expected = counts.ideal;
  expected += counts.recompute;
  const bool exact = !dependsOnData(op, operands);
  for (const CountClass &countClass : countClasses) {
    const Count did = found.*countClass.member, should = expected.*countClass.member;
    EXPECT_TRUE(exact ? did == should : did <= should) << name << " did " << did << " operations of class "
                                                       << countClass.name << ", its count says " << should;
  }
  for (auto [index, result] : llvm::enumerate(results))
    EXPECT_LT(relativeError((*counted)[index], result), 1e-12) << name << ", result " << index;
}

} // namespace

TestGraph::TestGraph(const std::string &text) {
  context.loadDialect<SluiceDialect, arith::ArithDialect, math::MathDialect>();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
  module = parseSourceString<ModuleOp>(text, &context);
}

GraphOp TestGraph::graph() {
  return *module->getOps<GraphOp>().begin();
}

std::vector<Operation *> TestGraph::ops() {
  std::vector<Operation *> list;
  for (Operation &op : graph().getBlock()->without_terminator())
    list.push_back(&op);
  return list;
}

std::vector<HostTensor> TestGraph::draw(unsigned seed, int64_t ids) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> magnitude(0.2, 1.2);
  std::vector<HostTensor> inputs;
  for (BlockArgument argument : graph().getBlock()->getArguments()) {
    HostTensor tensor = constantTensor(argument, 0.0);
    const bool isFloat = isa<FloatType>(cast<RankedTensorType>(argument.getType()).getElementType());
    for (double &value : tensor.values) {
      value = isFloat ? magnitude(generator) * (generator() % 2 ? 1 : -1)
                      : static_cast<double>(generator() % static_cast<unsigned>(ids));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Values TestGraph::evaluate(llvm::ArrayRef<HostTensor> inputs) {
  Values values;
  for (auto [argument, input] : llvm::zip(graph().getBlock()->getArguments(), inputs))
    values[argument] = input;
  for (Operation *op : ops()) {
    llvm::SmallVector<const HostTensor *> operands;
    for (Value operand : op->getOperands())
      operands.push_back(&values.find(operand)->second);
    Evaluation evaluation(op, operands);
    EXPECT_TRUE(succeeded(cast<Evaluable>(op).evaluate(evaluation))) << op->getName().getStringRef().str();
    std::vector<HostTensor> results = evaluation.takeResults();
    if (!counted)
      checkCounting(op, operands, results);
    for (auto [result, tensor] : llvm::zip(op->getResults(), results))
      values[result] = std::move(tensor);
  }
  counted = true;
  return values;
}

HostTensor objectiveWeights(Value result, unsigned index) {
  HostTensor weights = constantTensor(result, 0.0);
  for (int64_t i = 0; i < weights.size(); ++i)
    weights[i] = std::sin(1.0 + 0.7 * static_cast<double>(i) + 2.0 * index);
  return weights;
}

double TestGraph::objective(llvm::ArrayRef<HostTensor> inputs) {
  Values values = evaluate(inputs);
  double sum = 0;
  for (auto [index, result] : llvm::enumerate(graph().getBlock()->getTerminator()->getOperands())) {
    const HostTensor weights = objectiveWeights(result, static_cast<unsigned>(index));
    const HostTensor &value = values.find(result)->second;
    for (int64_t i = 0; i < weights.size(); ++i)
      sum += weights[i] * value[i];
  }
  return sum;
}

bool TestGraph::differentiate(std::vector<Value> &gradients) {
  Block &block = *graph().getBlock();
  std::vector<Operation *> forward = ops();
  const unsigned arguments = block.getNumArguments();
  OpBuilder builder(block.getTerminator());
  llvm::DenseMap<Value, Value> cotangents;
  // The weights of the objective enter as further arguments.
  llvm::SmallVector<Attribute> names(graph().getInputNames().getValue());
  for (Value result : block.getTerminator()->getOperands()) {
    cotangents[result] = block.addArgument(result.getType(), builder.getUnknownLoc());
    names.push_back(builder.getStringAttr("weights" + std::to_string(names.size())));
  }
  graph().setInputNamesAttr(builder.getArrayAttr(names));
  for (Operation *op : llvm::reverse(forward)) {
    if (llvm::none_of(op->getResults(), [&](Value result) { return cotangents.contains(result); }))
      continue;
    Operation *last = &*std::prev(builder.getInsertionPoint());
    Frame frame(builder, op, cotangents);
    auto differentiable = dyn_cast<Differentiable>(op);
    if (!differentiable || failed(differentiable.buildAdjoint(frame))) {
      ADD_FAILURE() << op->getName().getStringRef().str() << " has no adjoint";
      return false;
    }
    llvm::SmallVector<Operation *> added;
    for (Operation *next = last->getNextNode(); next != block.getTerminator(); next = next->getNextNode())
      added.push_back(next);
    checkReads(op, added, frame);
    for (unsigned index = 0; index < op->getNumOperands(); ++index) {
      if (!frame.needed(index))
        continue;
      EXPECT_TRUE(frame.given.contains(index))
          << "operand " << index << " of " << op->getName().getStringRef().str() << " got no cotangent";
      Value &sum = cotangents[op->getOperand(index)];
      Value own = frame.given.lookup(index);
      sum = sum ? AddOp::create(builder, op->getLoc(), sum, own).getResult() : own;
    }
  }
  for (unsigned index = 0; index < arguments; ++index)
    gradients.push_back(cotangents.lookup(block.getArgument(index)));
  return succeeded(verify(*module));
}

void TestGraph::decomposeAll() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *op : ops()) {
      OpBuilder builder(op);
      llvm::SmallVector<Value> results;
      if (failed(cast<Lowerable>(op).decompose(builder, results)))
        continue;
      EXPECT_TRUE(cast<Lowerable>(op).commandKind().empty());
      ASSERT_EQ(results.size(), op->getNumResults());
      op->replaceAllUsesWith(results);
      op->erase();
      changed = true;
    }
  }
  EXPECT_TRUE(succeeded(verify(*module)));
}

double relativeError(const HostTensor &found, const HostTensor &expected) {
  EXPECT_EQ(found.shape, expected.shape);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i]))
      continue; // a NaN on one side only makes the result NaN
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

void checkAdjoint(const std::string &text, unsigned seed) {
  SCOPED_TRACE(text);
  TestGraph forward(text), adjoint(text);
  ASSERT_TRUE(forward.valid()) << forward.errors();
  std::vector<HostTensor> inputs = forward.draw(seed);
  std::vector<Value> gradients;
  llvm::SmallVector<Value> returned(adjoint.graph().getBlock()->getTerminator()->getOperands());
  ASSERT_TRUE(adjoint.differentiate(gradients));
  std::vector<HostTensor> all = inputs;
  for (auto [index, result] : llvm::enumerate(returned))
    all.push_back(objectiveWeights(result, static_cast<unsigned>(index)));
  Values values = adjoint.evaluate(all);
  for (size_t argument = 0; argument < inputs.size(); ++argument) {
    if (!gradients[argument])
      continue;
    HostTensor differences(inputs[argument].shape);
    for (int64_t i = 0; i < differences.size(); ++i) {
      // Fourth-order central differences: truncation about 1e-12, rounding about 1e-12.
      const double step = 1e-3, x = inputs[argument][i];
      auto at = [&](double offset) {
        inputs[argument][i] = x + offset;
        return forward.objective(inputs);
      };
      differences[i] = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      inputs[argument][i] = x;
    }
    EXPECT_LT(relativeError(values.find(gradients[argument])->second, differences), 1e-6)
        << "argument " << argument;
  }
}

} // namespace sluice::test
