// The name of a generated kernel: equal bodies over equal shapes have equal names, wherever in the model they
// stand.
#pragma once

#include "dialects/sluice/Sluice.h"

#include <string>

namespace sluice {

/// A kernel to generate; `name` is unique in a library.
struct NamedKernel {
  std::string name;
  KernelOp kernel;
};

/// `<kind>_<rows>x<columns>_<16 hex digits>`; the digits hash the body, its types and settings but no origin.
std::string kernelName(KernelOp kernel);

} // namespace sluice
