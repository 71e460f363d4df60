// The model dialect: include this to build, read or rewrite graphs.
#pragma once

#include "dialects/interfaces/Interfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/sluice/Dialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/sluice/Attributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/sluice/Types.h.inc"

#define GET_OP_CLASSES
#include "dialects/sluice/Ops.h.inc"

namespace sluice {

/// Name of the discardable attribute that says where an op comes from.
inline constexpr llvm::StringLiteral originAttributeName = "sluice.origin";

/// The op's origin, or null.
inline OriginAttr originOf(mlir::Operation *op) {
  return op->getAttrOfType<OriginAttr>(originAttributeName);
}

} // namespace sluice
