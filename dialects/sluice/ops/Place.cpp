#include "dialects/sluice/ops/Place.h"

#include "dialects/sluice/Sluice.h"

using namespace mlir;

namespace sluice {

std::string placeOf(Operation *op) {
  if (OriginAttr origin = originOf(op); origin && !origin.getPath().empty())
    return origin.getPath().str();
  std::string path;
  auto prepend = [&](llvm::StringRef name) { path = path.empty() ? name.str() : name.str() + "." + path; };
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp()) {
    if (auto scope = dyn_cast<ScopeOp>(parent))
      prepend(scope.getName());
    else if (auto repeat = dyn_cast<RepeatOp>(parent))
      prepend(repeat.getName());
    else if (auto graph = dyn_cast<GraphOp>(parent))
      return path.empty() ? "@" + graph.getSymName().str() : path;
    else if (OriginAttr origin = originOf(parent); origin && !origin.getPath().empty() && path.empty())
      return origin.getPath().str();
  }
  return path;
}

InFlightDiagnostic emitPlacedError(Operation *op) {
  InFlightDiagnostic diagnostic = op->emitOpError();
  if (std::string place = placeOf(op); !place.empty())
    diagnostic << "in " << place << ": ";
  return diagnostic;
}

} // namespace sluice
