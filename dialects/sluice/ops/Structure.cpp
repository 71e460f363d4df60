// Graphs, parameters, state and notation: syntax and rules.
#include "dialects/sluice/ops/Answers.h"
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "dialects/sluice/Ops.cpp.inc"

namespace sluice {
namespace {

/// `(%a = %x, %b = %y)`: block arguments bound to operands; types come later, with the functional type.
ParseResult parseBindings(OpAsmParser &parser, llvm::SmallVectorImpl<OpAsmParser::Argument> &arguments,
                          llvm::SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  });
}

/// `: (types) -> types attr-dict {body}`, with the block arguments taking the operands' types.
ParseResult parseTypedBody(OpAsmParser &parser, OperationState &state,
                           llvm::SmallVectorImpl<OpAsmParser::Argument> &arguments,
                           llvm::ArrayRef<OpAsmParser::UnresolvedOperand> operands) {
  FunctionType type;
  llvm::SMLoc location = parser.getCurrentLocation();
  if (parser.parseColonType(type))
    return failure();
  if (type.getNumInputs() != operands.size())
    return parser.emitError(location)
           << "expected " << operands.size() << " operand types, found " << type.getNumInputs();
  if (parser.resolveOperands(operands, type.getInputs(), location, state.operands))
    return failure();
  state.addTypes(type.getResults());
  for (auto [argument, argumentType] : llvm::zip(arguments, type.getInputs()))
    argument.type = argumentType;
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  return parser.parseRegion(*state.addRegion(), arguments);
}

void printBindings(OpAsmPrinter &printer, Block &block, OperandRange operands) {
  printer << "(";
  llvm::interleaveComma(llvm::zip(block.getArguments(), operands), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ")";
}

void printTypedBody(OpAsmPrinter &printer, Operation *op, OperandRange operands,
                    llvm::ArrayRef<StringRef> hidden) {
  printer << " : (";
  llvm::interleaveComma(operands.getTypes(), printer);
  printer << ") -> ";
  if (op->getNumResults() == 1)
    printer << op->getResult(0).getType();
  else {
    printer << "(";
    llvm::interleaveComma(op->getResultTypes(), printer);
    printer << ")";
  }
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), hidden);
  printer << " ";
  printer.printRegion(op->getRegion(0), /*printEntryBlockArgs=*/false);
}

/// The yield of a body must agree with `expected` in number and type.
LogicalResult verifyYield(Operation *op, Block &block, TypeRange expected) {
  auto yield = dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield)
    return op->emitOpError("body must end with sluice.yield");
  if (yield.getNumOperands() != expected.size())
    return op->emitOpError() << "body yields " << yield.getNumOperands() << " values, expected "
                             << expected.size();
  for (auto [index, pair] : llvm::enumerate(llvm::zip(yield.getOperandTypes(), expected)))
    if (std::get<0>(pair) != std::get<1>(pair))
      return op->emitOpError() << "yielded value " << index << " has type " << std::get<0>(pair)
                               << ", expected " << std::get<1>(pair);
  return success();
}

/// The first name that occurs twice, or nullopt.
std::optional<llvm::StringRef> repeatedName(ArrayAttr names) {
  llvm::StringSet<> seen;
  for (auto name : names.getAsValueRange<StringAttr>())
    if (!seen.insert(name).second)
      return name;
  return std::nullopt;
}

/// `type` must be the type of the state that `op` names.
LogicalResult verifyState(Operation *op, FlatSymbolRefAttr name, Type type, SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state)
    return emitPlacedError(op) << "names the state " << name << ", which the module lacks";
  if (state.getType() != type)
    return emitPlacedError(op) << "state " << name << " is " << state.getType() << ", found " << type;
  return success();
}

} // namespace

// ----- graph
// ---------------------------------------------------------------------------------------------------

RegionKind GraphOp::getRegionKind(unsigned) {
  return RegionKind::SSACFG;
}

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseSymbolName(name, "sym_name", state.attributes) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true))
    return failure();
  llvm::SmallVector<StringRef> names;
  for (OpAsmParser::Argument &argument : arguments)
    names.push_back(argument.ssaName.name.drop_front());
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  if (!state.attributes.get("input_names"))
    state.addAttribute("input_names", parser.getBuilder().getStrArrayAttr(names));
  return parser.parseRegion(*state.addRegion(), arguments);
}

void GraphOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << "(";
  llvm::interleaveComma(getBody().getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"sym_name"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult GraphOp::verify() {
  if (getInputNames().size() != getBody().getNumArguments())
    return emitOpError() << "has " << getBody().getNumArguments() << " inputs but " << getInputNames().size()
                         << " input names";
  if (auto name = repeatedName(getInputNames()))
    return emitOpError() << "has two inputs '" << *name << "'";
  if (getBody().front().empty() || !isa<ReturnOp>(getBody().front().back()))
    return emitOpError("body must end with sluice.return");
  return success();
}

LogicalResult ReturnOp::verify() {
  if (getNames().size() != getValues().size())
    return emitOpError() << "returns " << getValues().size() << " values but names " << getNames().size();
  if (auto name = repeatedName(getNames()))
    return emitOpError() << "returns two values as '" << *name << "'";
  return success();
}

// ----- parameters and state
// ------------------------------------------------------------------------------------

void ParamOp::getEffects(llvm::SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  // An allocation is never merged with another one, and an unused parameter may go.
  effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getOpResult(0));
}

LogicalResult ParamOp::verify() {
  if (!isa<NormalAttr, FillAttr>(getInit()))
    return emitOpError() << "'" << getName()
                         << "' needs an initial value #sluice.normal<...> or #sluice.fill<...>, found "
                         << getInit();
  if (!cast<RankedTensorType>(getValue().getType()).hasStaticShape())
    return emitOpError() << "'" << getName() << "' must have a static shape, found "
                         << shapeText(getValue().getType());
  auto experts = (*this)->getAttrOfType<IntegerAttr>("sluice.experts"),
       active = (*this)->getAttrOfType<IntegerAttr>("sluice.active");
  auto shape = cast<RankedTensorType>(getValue().getType()).getShape();
  if (!experts && !active)
    return success();
  if (!experts || !active || shape.empty() || shape[0] != experts.getInt() || active.getInt() < 1 ||
      active.getInt() > experts.getInt())
    return emitOpError()
           << "'" << getName()
           << "' is stacked by experts: needs sluice.experts, its leading size, and sluice.active, 1 to "
              "that number, found "
           << shapeText(getValue().getType());
  return success();
}

LogicalResult StateOp::verify() {
  if ((getRole() == "mask") != isa<MaskType>(getType()))
    return emitOpError() << "'" << getSymName()
                         << "' must be of mask type if and only if its role is mask, found " << getType()
                         << " with the role '" << getRole() << "'";
  if (getRole() == "mask") {
    if (!isa<RandomMaskAttr>(getInit()))
      return emitOpError() << "'" << getSymName() << "' needs the initial value #sluice.random_mask, found "
                           << getInit();
    return success();
  }
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError() << "'" << getSymName() << "' must be a tensor of static shape, found " << getType();
  if (!isa<NormalAttr, FillAttr>(getInit()))
    return emitOpError() << "'" << getSymName()
                         << "' needs an initial value #sluice.normal<...> or #sluice.fill<...>, found "
                         << getInit();
  if (!llvm::is_contained({"parameter", "gradient", "exp_avg", "exp_avg_sq", "age", "dense_gradient"},
                          getRole()))
    return emitOpError() << "'" << getSymName()
                         << "' must have the role parameter, gradient, exp_avg, exp_avg_sq, mask, age or "
                            "dense_gradient, found '"
                         << getRole() << "'";
  const auto experts = static_cast<int64_t>(getExperts()), active = static_cast<int64_t>(getActive());
  if (experts != 0 && (type.getRank() == 0 || type.getDimSize(0) != experts))
    return emitOpError() << "'" << getSymName() << "' is stacked over " << experts
                         << " experts, so its first size must be that number, found " << shapeText(type);
  if (active < 0 || active > experts)
    return emitOpError() << "'" << getSymName() << "' must have between 0 and its " << experts
                         << " experts active, found " << active;
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, getStateAttr(), getValue().getType(), symbols);
}
LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, getStateAttr(), getValue().getType(), symbols);
}
LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, getStateAttr(), getValue().getType(), symbols);
}

void ReadOp::getEffects(llvm::SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), getStateAttr());
}
void WriteOp::getEffects(llvm::SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), getStateAttr());
}
void AccumulateOp::getEffects(llvm::SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), getStateAttr());
  effects.emplace_back(MemoryEffects::Write::get(), getStateAttr());
}

OpCounts AccumulateOp::count() {
  ClassCounts counts;
  counts.add =
      wholeElements(*this, static_cast<Count>(cast<RankedTensorType>(getValue().getType()).getNumElements()));
  return OpCounts::same(counts);
}

// ----- notation
// ------------------------------------------------------------------------------------------------

ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  IntegerAttr times;
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type i64 = parser.getBuilder().getI64Type();
  if (parser.parseAttribute(name, "name", state.attributes) || parser.parseKeyword("times") ||
      parser.parseAttribute(times, i64, "times", state.attributes) ||
      parseBindings(parser, arguments, operands))
    return failure();
  return parseTypedBody(parser, state, arguments, operands);
}

void RepeatOp::print(OpAsmPrinter &printer) {
  printer << " " << getNameAttr() << " times " << getTimes() << " ";
  printBindings(printer, getBody().front(), getInits());
  llvm::SmallVector<StringRef> hidden = {"name", "times"};
  if (getFirst() == 0)
    hidden.push_back("first");
  printTypedBody(printer, *this, getInits(), hidden);
}

LogicalResult RepeatOp::verify() {
  if (static_cast<int64_t>(getTimes()) < 1)
    return emitOpError() << "'" << getName() << "' must repeat at least once, found times "
                         << static_cast<int64_t>(getTimes());
  if (static_cast<int64_t>(getFirst()) < 0)
    return emitOpError() << "'" << getName() << "' first must not be negative, found "
                         << static_cast<int64_t>(getFirst());
  if (getInits().getTypes() != getResultTypes())
    return emitOpError() << "'" << getName() << "' must return the types it is given, found "
                         << getInits().getTypes() << " and " << getResultTypes();
  if (getBody().front().getArgumentTypes() != getInits().getTypes())
    return emitOpError() << "'" << getName() << "' body arguments must have the operands' types";
  return verifyYield(*this, getBody().front(), getResultTypes());
}

LogicalResult ScopeOp::verify() {
  return verifyYield(*this, getBody().front(), getResultTypes());
}

ParseResult ExpertsOp::parse(OpAsmParser &parser, OperationState &state) {
  OpAsmParser::UnresolvedOperand routing;
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type routingType;
  if (parser.parseKeyword("by") || parser.parseOperand(routing) || parser.parseColonType(routingType) ||
      parser.resolveOperand(routing, routingType, state.operands) ||
      parseBindings(parser, arguments, operands))
    return failure();
  return parseTypedBody(parser, state, arguments, operands);
}

void ExpertsOp::print(OpAsmPrinter &printer) {
  printer << " by " << getRouting() << " : " << getRouting().getType() << " ";
  printBindings(printer, getBody().front(), getInputs());
  printTypedBody(printer, *this, getInputs(), {});
}

LogicalResult ExpertsOp::verify() {
  if (getBody().front().getArgumentTypes() != getInputs().getTypes())
    return emitOpError("body arguments must have the inputs' types");
  for (Value input : getInputs()) {
    // Equal types prove nothing: the rows must come from a dispatch by this very assignment, or be computed
    // from such.
    if (auto dispatch = input.getDefiningOp<DispatchOp>(); dispatch && dispatch.getRouting() != getRouting())
      return emitPlacedError(*this) << "rows were dispatched by another assignment than the one named here";
    if (failed(verifyRows(*this, input, routingTypeOf(getRouting()), "each input")))
      return failure();
  }
  return verifyYield(*this, getBody().front(), getResultTypes());
}

LogicalResult AuxiliaryLossOp::verify() {
  if (cast<RankedTensorType>(getValue().getType()).getRank() != 0)
    return emitOpError() << "'" << getName() << "' must be a scalar, found "
                         << shapeText(getValue().getType());
  return success();
}

// ----- kernels
// -------------------------------------------------------------------------------------------------

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr kind;
  DictionaryAttr settings;
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  if (parser.parseAttribute(kind, "kind", state.attributes) ||
      parser.parseAttribute(settings, "settings", state.attributes) ||
      parseBindings(parser, arguments, operands))
    return failure();
  return parseTypedBody(parser, state, arguments, operands);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << " " << getKindAttr() << " " << getSettingsAttr() << " ";
  printBindings(printer, getBody().front(), getInputs());
  printTypedBody(printer, *this, getInputs(), {"kind", "settings"});
}

LogicalResult KernelOp::verify() {
  if (getBody().front().getArgumentTypes() != getInputs().getTypes())
    return emitOpError("body arguments must have the inputs' types");
  return verifyYield(*this, getBody().front(), getResultTypes());
}

} // namespace sluice
