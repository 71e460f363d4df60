#include "runtime/device/cudasim/ptx/Module.h"

namespace sluice::cudasim::ptx {

uint32_t typeBytes(std::string_view type) {
  if (type == "pred" || type == "f16x2" || type == "bf16x2" || type == "tf32")
    return 4;
  if (type == "f16" || type == "bf16")
    return 2;
  const size_t digits = type.find_first_of("0123456789");
  if (digits != 1 || std::string_view("busf").find(type[0]) == std::string_view::npos)
    return 0;
  const std::string_view bits = type.substr(digits);
  return bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : bits == "64" ? 8 : bits == "128" ? 16 : 0;
}

std::string Instruction::fullName() const {
  std::string name = opcode;
  for (const std::string &modifier : modifiers)
    name += "." + modifier;
  return name;
}

std::optional<Variable> Function::find(std::string_view name, int scope) const {
  const std::string key(name);
  // %r12 belongs to a range %r<count>.
  size_t prefix = key.size();
  while (prefix > 0 && key[prefix - 1] >= '0' && key[prefix - 1] <= '9')
    --prefix;
  for (int at = scope; at >= 0; at = scopes[at].parent) {
    const Scope &names = scopes[at];
    if (auto found = names.variables.find(key); found != names.variables.end())
      return found->second;
    if (prefix == key.size() || key.size() - prefix > 8)
      continue;
    auto range = names.registerRanges.find(key.substr(0, prefix));
    if (range == names.registerRanges.end())
      continue;
    if (static_cast<uint32_t>(std::stoul(key.substr(prefix))) >= range->second.second)
      continue;
    Variable variable = range->second.first;
    variable.name = key;
    return variable;
  }
  return std::nullopt;
}

std::optional<uint32_t> Function::findLabel(std::string_view name, int scope) const {
  for (int at = scope; at >= 0; at = scopes[at].parent) {
    auto found = scopes[at].labels.find(std::string(name));
    if (found != scopes[at].labels.end())
      return found->second;
  }
  return std::nullopt;
}

const Function *Module::findFunction(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name && function.hasBody)
      return &function;
  return nullptr;
}

const Variable *Module::findVariable(std::string_view name) const {
  for (const Variable &variable : variables)
    if (variable.name == name)
      return &variable;
  return nullptr;
}

} // namespace sluice::cudasim::ptx
