// map: syntax, rules, and answers read off the body (ScalarBody.h).
#include "dialects/sluice/AdjointUtils.h"
#include "dialects/sluice/ScalarBody.h"
#include "dialects/sluice/ops/Answers.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace sluice {

LogicalResult MapOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                      DictionaryAttr, OpaqueProperties, RegionRange,
                                      llvm::SmallVectorImpl<Type> &types) {
  if (operands.empty())
    return emitOptionalError(location, "'sluice.map' op needs at least one operand");
  llvm::SmallVector<llvm::SmallVector<Dim>> shapes;
  std::string text;
  for (Value operand : operands) {
    shapes.push_back(dimsOf(operand.getType()));
    text += (text.empty() ? "" : ", ") + dimsText(shapes.back());
  }
  std::optional<llvm::SmallVector<Dim>> dims = broadcastDims(shapes);
  if (!dims)
    return emitOptionalError(location,
                             "'sluice.map' op operands must broadcast (aligned at the last dimension, "
                             "sizes equal or 1), found ",
                             text);
  types.push_back(tensorOf(*dims, elementTypeOf(operands.front())));
  return success();
}

ParseResult MapOp::parse(OpAsmParser &parser, OperationState &state) {
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  llvm::SMLoc location;
  auto parseBinding = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseBinding) ||
      parser.getCurrentLocation(&location) || parser.parseColonType(type))
    return failure();
  if (type.getNumInputs() != operands.size())
    return parser.emitError(location)
           << "expected " << operands.size() << " operand types, found " << type.getNumInputs();
  for (auto [argument, input] : llvm::zip(arguments, type.getInputs())) {
    auto tensor = dyn_cast<RankedTensorType>(input);
    if (!tensor)
      return parser.emitError(location) << "expected a tensor type, found " << input;
    argument.type = tensor.getElementType();
  }
  state.addTypes(type.getResults());
  return failure(parser.resolveOperands(operands, type.getInputs(), location, state.operands) ||
                 parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
                 parser.parseRegion(*state.addRegion(), arguments));
}

void MapOp::print(OpAsmPrinter &printer) {
  printer << " (";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ") : (";
  llvm::interleaveComma(getInputs().getTypes(), printer);
  printer << ") -> " << getResult().getType();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult MapOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return ruleError(*this) << "body takes " << block.getNumArguments()
                            << " scalars, expected one an operand (" << getInputs().size() << ")";
  for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs()))
    if (argument.getType() != elementTypeOf(input))
      return ruleError(*this) << "body takes " << argument.getType() << " for an operand of "
                              << elementTypeOf(input);
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != 1 || yield.getOperand(0).getType() != elementTypeOf(getResult()))
    return ruleError(*this) << "body must end with sluice.yield of one " << elementTypeOf(getResult());
  for (Operation &op : block) {
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() != &block)
        return ruleError(*this) << "body must read its own scalars only, but '" << op.getName()
                                << "' reads a value from outside; make it an operand";
    if (&op != yield && !scalarRule(&op))
      return ruleError(*this) << "body must be made of scalar arith and math ops that have a rule, found '"
                              << op.getName() << "'";
  }
  return success();
}

OpCounts MapOp::count() {
  FailureOr<ScalarProgram> program = ScalarProgram::compile(getBody().front());
  return OpCounts::same(failed(program) ? ClassCounts() : program->counts().times(elementCount(getResult())));
}

RecomputeCost MapOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult MapOp::evaluate(Evaluation &evaluation) {
  FailureOr<ScalarProgram> program = ScalarProgram::compile(getBody().front());
  if (failed(program))
    return failure();
  HostTensor &y = evaluation.result(0);
  llvm::SmallVector<llvm::SmallVector<int64_t>> strides;
  for (unsigned i = 0; i < getInputs().size(); ++i)
    strides.push_back(broadcastStrides(evaluation.operand(i).shape, y.shape));
  llvm::SmallVector<double> scalars(getInputs().size());
  forEachIndex(y.shape, [&](llvm::ArrayRef<int64_t> index, int64_t linear) {
    for (unsigned i = 0; i < scalars.size(); ++i)
      scalars[i] = evaluation.operand(i)[offsetOf(index, strides[i])];
    y[linear] = program->run(scalars);
  });
  return success();
}

llvm::ArrayRef<int64_t> MapOp::adjointReadsOperands() {
  // 0, 1, 2, ...: a prefix of one list serves every map.
  static const llvm::SmallVector<int64_t> indices = llvm::to_vector(llvm::seq<int64_t>(0, 256));
  return llvm::ArrayRef<int64_t>(indices).take_front(getInputs().size());
}

LogicalResult MapOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  auto copyBody = [&](OpBuilder &builder, Location, ValueRange scalars) -> Value {
    IRMapping mapping;
    mapping.map(getBody().getArguments(), scalars);
    for (Operation &op : getBody().front().without_terminator())
      builder.clone(op, mapping);
    return mapping.lookup(getBody().front().getTerminator()->getOperand(0));
  };
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    if (!adjoint.needed(index))
      continue;
    FailureOr<Value> dx = buildMapAdjoint(adjoint.builder, adjoint.loc, getInputs(), copyBody, index, dy);
    if (failed(dx))
      return failure();
    adjoint.setOperandCotangent(index, *dx ? reduceLike(adjoint.builder, adjoint.loc, *dx, input.getType())
                                           : zerosLike(adjoint.builder, adjoint.loc, input.getType()));
  }
  return success();
}

// A map is itself a primitive: kernels are made of it.
std::string MapOp::commandKind() {
  return "";
}
void MapOp::commandAttributes(NamedAttrList &) {}
LogicalResult MapOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
