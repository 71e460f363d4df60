// Subcommands that need the compiler: only `sluice` has them.
#pragma once

#include "frontends/cli/Invocation.h"

namespace sluice::cli {

void addGraphCommand(CLI::App &app, Invocation &invocation);
void addStatsCommand(CLI::App &app, Invocation &invocation);
void addImportCommand(CLI::App &app, Invocation &invocation);
void addTwinCommand(CLI::App &app, Invocation &invocation);
void addCompileCommand(CLI::App &app, Invocation &invocation);
void addExecCommand(CLI::App &app, Invocation &invocation);
void addSchemaCommand(CLI::App &app, Invocation &invocation);
/// What `train` uses to turn a spec, graph or config into an executable.
ModelResolver compilingResolver();

} // namespace sluice::cli
