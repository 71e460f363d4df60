#include "runtime/device/cudasim/instructions/MemoryModifiers.h"

namespace sluice::cudasim {

namespace {

bool isHint(std::string_view modifier) {
  for (const char *hint :
       {"weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "cta", "cluster", "gpu", "sys"})
    if (modifier == hint)
      return true;
  return modifier.starts_with("L1::") || modifier.starts_with("L2::");
}

} // namespace

MemoryModifiers parseMemoryModifiers(const ptx::Instruction &instruction) {
  MemoryModifiers result;
  for (const std::string &modifier : instruction.modifiers) {
    if (isHint(modifier))
      continue;
    if (modifier == "global" || modifier == "const")
      result.space = AddressSpace::Global;
    else if (modifier == "shared" || modifier == "shared::cta")
      result.space = AddressSpace::Shared;
    else if (modifier == "local")
      result.space = AddressSpace::Local;
    else if (modifier == "param" || modifier == "param::entry" || modifier == "param::func")
      result.space = AddressSpace::Param;
    else if (modifier == "v2" || modifier == "v4" || modifier == "v8")
      result.elements = static_cast<uint32_t>(modifier[1] - '0');
    else if (modifier == "volatile" || modifier == "relaxed")
      result.isVolatile = true;
    else if (modifier == "acquire")
      result.isVolatile = result.acquires = true;
    else if (modifier == "release")
      result.isVolatile = result.releases = true;
    else if (modifier == "acq_rel")
      result.isVolatile = result.acquires = result.releases = true;
    else
      result.others.push_back(modifier);
  }
  return result;
}

} // namespace sluice::cudasim
