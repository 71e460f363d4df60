#include "dialects/sluice/Sluice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/sluice/Dialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/sluice/Attributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/sluice/Types.cpp.inc"

namespace sluice {

void SluiceDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/sluice/Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/sluice/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/sluice/Ops.cpp.inc"
      >();
}

/// `<batch, seq, _>`: a keyword a name, a string a product, `_` a static size.
Attribute DimsAttr::parse(AsmParser &parser, Type) {
  llvm::SmallVector<StringAttr> names;
  auto parseName = [&]() -> ParseResult {
    std::string product;
    if (succeeded(parser.parseOptionalString(&product))) {
      names.push_back(StringAttr::get(parser.getContext(), product));
      return success();
    }
    StringRef keyword;
    if (failed(parser.parseKeyword(&keyword)))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), keyword));
    return success();
  };
  if (failed(parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseName)))
    return {};
  return DimsAttr::get(parser.getContext(), names);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getNames(), printer, [&](StringAttr name) {
    if (name.getValue().contains('*'))
      printer << '"' << name.getValue() << '"';
    else
      printer << name.getValue();
  });
  printer << ">";
}

int64_t RoutingType::tokenCount() const {
  int64_t count = -1;
  (void)getTokens().getValue().getAsInteger(10, count);
  return count;
}

} // namespace sluice
