// Declarations of variables, parameters and registers: ".shared .align 4 .b8 tile[1024]".
#pragma once

#include "runtime/device/cudasim/ptx/Module.h"
#include "runtime/device/cudasim/ptx/TokenReader.h"

namespace sluice::cudasim::ptx {

/// Space of a directive such as "shared", nullopt for other words.
std::optional<Space> spaceOf(std::string_view directive);

/// Parses what follows the space: alignment, type, name, array sizes and, for a module's variable, an
/// initial value. Leaves the closing ';' or ','.
StatusOr<Variable> parseVariable(TokenReader &reader, Space space);

/// Parses ".b32 %r<10>, %x;" after ".reg" into `scope`.
Status parseRegisters(TokenReader &reader, Scope &scope);

} // namespace sluice::cudasim::ptx
