// Subcommands that need no compiler: both `sluice` and `sluice-run` have them.
#pragma once

#include "frontends/cli/Invocation.h"

namespace sluice::cli {

void addInspectCommand(CLI::App &app, Invocation &invocation);
void addDataCommand(CLI::App &app, Invocation &invocation);
void addTrainCommand(CLI::App &app, Invocation &invocation, ModelResolver resolver);
void addEvalCommand(CLI::App &app, Invocation &invocation);
void addGenerateCommand(CLI::App &app, Invocation &invocation);
void addExportCommand(CLI::App &app, Invocation &invocation);

} // namespace sluice::cli
