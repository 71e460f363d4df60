// Reads PTX text into a Module.
#pragma once

#include "runtime/device/cudasim/ptx/Lexer.h"
#include "runtime/device/cudasim/ptx/Module.h"

namespace sluice::cudasim::ptx {

/// Parses one PTX module. The text is not trusted: anything that is not PTX is an error (bad input) of the
/// form "file:line: expected ..., found ..."; sizes are limited before anything is allocated.
StatusOr<Module> parseModule(std::string_view source, std::string_view file);

} // namespace sluice::cudasim::ptx
