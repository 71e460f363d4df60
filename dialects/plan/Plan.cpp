#include "dialects/plan/Plan.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/plan/Dialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/Attributes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/plan/Ops.cpp.inc"

namespace sluice::plan {

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/Attributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/Ops.cpp.inc"
      >();
}

LogicalResult SlotAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, llvm::StringRef arena,
                               int64_t offset) {
  if (offset < 0 || offset % 64 != 0)
    return emitError() << "a slot's offset must be a multiple of 64, found " << offset << " in '" << arena
                       << "'";
  return success();
}

LogicalResult ArenaOp::verify() {
  if (static_cast<int64_t>(getBytes()) < 0)
    return emitOpError() << "'" << getSymName() << "' must have 0 bytes or more, found "
                         << static_cast<int64_t>(getBytes());
  if (!llvm::is_contained({"parameters", "gradients", "optimizer", "activations", "io"}, getLifetime()))
    return emitOpError()
           << "'" << getSymName()
           << "' must have the lifetime parameters, gradients, optimizer, activations or io, found '"
           << getLifetime() << "'";
  return success();
}

ParseResult CommandOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr kind;
  IntegerAttr number;
  ArrayAttr inputSlots, resultSlots, states;
  DenseI64ArrayAttr dependencies;
  DictionaryAttr settings;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  llvm::SMLoc location;
  if (parser.parseAttribute(number, parser.getBuilder().getI64Type(), "number", state.attributes) ||
      parser.parseAttribute(kind, "kind", state.attributes) ||
      parser.parseAttribute(settings, "settings", state.attributes) ||
      parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("from") ||
      parser.parseAttribute(inputSlots, "input_slots", state.attributes) || parser.parseKeyword("to") ||
      parser.parseAttribute(resultSlots, "result_slots", state.attributes) || parser.parseKeyword("states") ||
      parser.parseAttribute(states, "states", state.attributes) || parser.parseKeyword("after") ||
      parser.parseCustomAttributeWithFallback(dependencies, Type{}, "dependencies", state.attributes) ||
      parser.getCurrentLocation(&location) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), location, state.operands))
    return failure();
  state.addTypes(type.getResults());
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true))
    return failure();
  return parser.parseRegion(*state.addRegion(), arguments);
}

void CommandOp::print(OpAsmPrinter &printer) {
  printer << " " << getNumber() << " " << getKindAttr() << " " << getSettingsAttr() << " (" << getInputs()
          << ") from " << getInputSlots() << " to " << getResultSlots() << " states " << getStates()
          << " after ";
  printer.printStrippedAttrOrType(getDependenciesAttr());
  printer << " : (";
  llvm::interleaveComma(getInputs().getTypes(), printer);
  printer << ") -> (";
  llvm::interleaveComma(getResultTypes(), printer);
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"number", "kind", "settings", "input_slots",
                                                                 "result_slots", "states", "dependencies"});
  printer << " (";
  llvm::interleaveComma(getBody().getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult CommandOp::verify() {
  for (Attribute slot :
       llvm::concat<const Attribute>(getInputSlots().getValue(), getResultSlots().getValue()))
    if (!isa<SlotAttr>(slot))
      return emitOpError() << "needs slots such as #plan.slot<\"activations\", 64>, found " << slot;
  if (getInputSlots().size() != getInputs().size())
    return emitOpError() << "has " << getInputs().size() << " inputs but " << getInputSlots().size()
                         << " input slots";
  if (getResultSlots().size() != getNumResults())
    return emitOpError() << "has " << getNumResults() << " results but " << getResultSlots().size()
                         << " result slots";
  if (getBody().front().getNumArguments() != getInputs().size() + getStates().size())
    return emitOpError() << "body takes " << getBody().front().getNumArguments() << " values, expected the "
                         << getInputs().size() << " inputs and " << getStates().size() << " states";
  if (TypeRange(getBody().front().getArgumentTypes()).take_front(getInputs().size()) !=
      getInputs().getTypes())
    return emitOpError("body arguments must have the inputs' types");
  Operation *yield = getBody().front().empty() ? nullptr : &getBody().front().back();
  if (!yield || yield->getNumOperands() != getNumResults() + getStates().size())
    return emitOpError() << "body yields " << (yield ? yield->getNumOperands() : 0)
                         << " values, expected the " << getNumResults() << " results and "
                         << getStates().size() << " states";
  for (int64_t dependency : getDependencies())
    if (dependency < 0 || dependency >= static_cast<int64_t>(getNumber()))
      return emitOpError() << "depends on command " << dependency << ", which is not an earlier one";
  return success();
}

} // namespace sluice::plan
