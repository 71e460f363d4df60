// Module attributes as JSON and back: the training section and the model configuration travel with the graph.
#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace sluice {

/// Objects become dictionaries, arrays arrays, integers i64, other numbers f64, strings and booleans
/// themselves. Null becomes a unit attribute.
mlir::Attribute jsonToAttribute(mlir::MLIRContext *context, const llvm::json::Value &value);

/// The inverse; attributes of other kinds become their printed form.
llvm::json::Value attributeToJson(mlir::Attribute attribute);

/// `attributeToJson` as text on one line; `{}` for null.
std::string attributeToJsonText(mlir::Attribute attribute);

} // namespace sluice
