#include "passes/MaskSettings.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace sluice {
namespace {

std::string textOf(DictionaryAttr section, StringRef key, StringRef fallback) {
  auto text = section.getAs<StringAttr>(key);
  return (text ? text.getValue() : fallback).str();
}

LogicalResult readNumber(ModuleOp module, DictionaryAttr section, StringRef key, double &value) {
  Attribute found = section.get(key);
  if (!found)
    return success();
  if (auto number = dyn_cast<FloatAttr>(found))
    value = number.getValueAsDouble();
  else if (auto integer = dyn_cast<IntegerAttr>(found))
    value = static_cast<double>(integer.getInt());
  else
    return module.emitError() << "sparsity." << key << ": expected a number, found " << found;
  return success();
}

} // namespace

LogicalResult MaskSettings::read(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>("sluice.training");
  auto section = training ? training.getAs<DictionaryAttr>("sparsity") : DictionaryAttr();
  if (!section)
    return success();
  method = textOf(section, "method", "static");
  if (!llvm::is_contained({"static", "set", "rigl", "gradual"}, method))
    return module.emitError() << "sparsity.method: expected static, set, rigl or gradual, found '" << method
                              << "'";
  drop = textOf(section, "drop", "magnitude");
  grow = method == "set" ? "random" : method == "rigl" ? "gradient" : "none";
  grow = textOf(section, "grow", grow);
  ages = moves() && section.get("restart");
  if (failed(readNumber(module, section, "restart", restart)) ||
      failed(readNumber(module, section, "ramp", ramp)))
    return failure();
  if (!ages)
    ramp = 0;
  return success();
}

} // namespace sluice
