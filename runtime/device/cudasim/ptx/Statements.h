// A function's body: instructions, labels, scopes and the declarations inside.
#pragma once

#include "runtime/device/cudasim/ptx/Module.h"
#include "runtime/device/cudasim/ptx/TokenReader.h"

namespace sluice::cudasim::ptx {

/// Parses from the body's '{' to its '}' into `function`.
Status parseBody(TokenReader &reader, Function &function);

} // namespace sluice::cudasim::ptx
