#include "dialects/sluice/ScalarBody.h"

#include "dialects/sluice/Build.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace sluice {

void ScalarAdjoint::spread(Operation &op) {
  const ScalarRule *rule = scalarRule(&op);
  if (rule && rule->derive &&
      llvm::any_of(op.getOperands(), [&](Value operand) { return isActive(operand); }))
    for (Value value : op.getResults())
      mark(value);
}

void ScalarAdjoint::accumulate(Value scalar, Value cotangent) {
  if (!isActive(scalar))
    return;
  Value &sum = sums[scalar];
  sum = sum ? add(sum, cotangent) : cotangent;
}

FailureOr<ScalarProgram> ScalarProgram::compile(Block &body) {
  ScalarProgram program;
  llvm::DenseMap<Value, unsigned> place;
  for (BlockArgument argument : body.getArguments())
    place[argument] = program.arguments++;
  unsigned next = program.arguments;
  for (Operation &op : body.without_terminator()) {
    const ScalarRule *rule = scalarRule(&op);
    if (!rule)
      return op.emitOpError("has no rule in the body of sluice.map");
    Step step{rule, &op, {}};
    for (Value operand : op.getOperands())
      step.operands.push_back(place.lookup(operand));
    place[op.getResult(0)] = next++;
    program.steps.push_back(std::move(step));
  }
  program.values.resize(next);
  program.result = place.lookup(body.getTerminator()->getOperand(0));
  return program;
}

double ScalarProgram::run(llvm::ArrayRef<double> inputs) {
  std::copy(inputs.begin(), inputs.end(), values.begin());
  unsigned next = arguments;
  double operands[3];
  for (const Step &step : steps) {
    for (auto [index, place] : llvm::enumerate(step.operands))
      operands[index] = values[place];
    values[next++] = step.rule->evaluate(step.op, operands);
  }
  return values[result];
}

ClassCounts ScalarProgram::counts() const {
  ClassCounts counts;
  for (const Step &step : steps)
    if (step.rule->countedAs)
      counts.*step.rule->countedAs += 1;
  return counts;
}

namespace {

/// Drops ops of the body that nothing uses, then operands that the body does not read.
void prune(MapOp map) {
  Block &block = map.getBody().front();
  llvm::SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  for (unsigned index = block.getNumArguments(); index-- > 0;) {
    if (!block.getArgument(index).use_empty())
      continue;
    block.eraseArgument(index);
    map->eraseOperand(index);
  }
}

} // namespace

FailureOr<Value> buildMapAdjoint(OpBuilder &builder, Location loc, ValueRange inputs, ScalarFunction body,
                                 unsigned index, Value cotangent) {
  llvm::SmallVector<Value> operands(inputs);
  operands.push_back(cotangent);
  // The map is finished before it enters the graph, so that the caller sees the final op only.
  OpBuilder detached(builder.getContext());
  bool known = true, isZero = false;
  MapOp map = buildMap(detached, loc, operands, [&](OpBuilder &inner, Location, ValueRange scalars) -> Value {
    Value result = body(inner, loc, scalars.drop_back());
    ScalarAdjoint adjoint(inner, loc);
    adjoint.mark(scalars[index]);
    llvm::SmallVector<Operation *> forward;
    for (Operation &op : *inner.getInsertionBlock()) {
      if (!scalarRule(&op)) {
        op.emitOpError("has no rule in the body of sluice.map");
        known = false;
        return scalars.back();
      }
      adjoint.spread(op);
      forward.push_back(&op);
    }
    adjoint.accumulate(result, scalars.back());
    for (Operation *op : llvm::reverse(forward))
      if (Value g = adjoint.cotangent(op->getResult(0)))
        scalarRule(op)->derive(adjoint, op, g);
    Value sum = adjoint.cotangent(scalars[index]);
    isZero = !sum;
    return sum ? sum : scalars.back();
  });
  if (!known || isZero) {
    map->erase();
    return known ? FailureOr<Value>(Value()) : FailureOr<Value>(failure());
  }
  prune(map);
  Block &block = map.getBody().front();
  if (isa<BlockArgument>(block.getTerminator()->getOperand(0)) && block.getNumArguments() == 1 &&
      map.getInputs()[0] == cotangent) {
    map->erase();
    return cotangent;
  }
  builder.insert(map);
  return Value(map.getResult());
}

} // namespace sluice
