// A graph that remembers the sizes of the spec it came from.
#pragma once

#include "frontends/cli/Compiler.h"

namespace sluice::cli {

/// Notes the model's sizes in its module, so that they survive as text; Compiler::load reads them back.
void rememberBindings(LoadedModel &model);

} // namespace sluice::cli
