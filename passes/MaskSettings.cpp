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

LogicalResult readRule(ModuleOp module, DictionaryAttr section, MaskRule &rule) {
  rule.method = textOf(section, "method", "static");
  if (!llvm::is_contained({"static", "set", "rigl", "gradual"}, rule.method))
    return module.emitError() << "sparsity.method: expected static, set, rigl or gradual, found '"
                              << rule.method << "'";
  rule.drop = textOf(section, "drop", "magnitude");
  rule.grow = rule.method == "set" ? "random" : rule.method == "rigl" ? "gradient" : "none";
  if (rule.moves())
    rule.grow = textOf(section, "grow", rule.grow);
  return success();
}

} // namespace

bool MaskSettings::moves() const {
  return llvm::any_of(rules, [](const MaskRule &rule) { return rule.moves(); });
}

const MaskRule &MaskSettings::of(StateOp mask) const {
  auto number = mask->getAttrOfType<IntegerAttr>("sluice.rule");
  return rules[number ? static_cast<size_t>(number.getInt()) : 0];
}

LogicalResult MaskSettings::read(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>("sluice.training");
  auto section = training ? training.getAs<DictionaryAttr>("sparsity") : DictionaryAttr();
  if (!section)
    return success();
  auto list = section.getAs<ArrayAttr>("rules");
  rules.assign(list ? list.size() : 1, MaskRule());
  for (auto [index, rule] : llvm::enumerate(rules)) {
    auto own = list ? dyn_cast<DictionaryAttr>(list[index]) : section;
    if (!own)
      return module.emitError() << "sparsity.rules: expected a list of rules, found " << list[index];
    if (failed(readRule(module, own, rule)))
      return failure();
  }
  for (StateOp state : module.getOps<StateOp>())
    if (auto number = state->getAttrOfType<IntegerAttr>("sluice.rule");
        number && (number.getInt() < 0 || number.getInt() >= static_cast<int64_t>(rules.size())))
      return state.emitError() << "'" << state.getSymName() << "' follows rule " << number.getInt() << " of "
                               << rules.size();
  restarts = static_cast<bool>(section.get("restart"));
  if (failed(readNumber(module, section, "restart", restart)) ||
      failed(readNumber(module, section, "ramp", ramp)))
    return failure();
  if (!restarts)
    ramp = 0;
  return success();
}

} // namespace sluice
