// Subcommands that need no compiler: both `sluice` and `sluice-run` have them.
#pragma once

#include "frontends/cli/Invocation.h"

namespace sluice::cli {

void addInspectCommand(CLI::App &app, Invocation &invocation);
void addDataCommand(CLI::App &app, Invocation &invocation);
/// `models` says what `resolver` takes: "an executable (.slx)".
void addTrainCommand(CLI::App &app, Invocation &invocation, ModelResolver resolver,
                     const std::string &models);
void addEvalCommand(CLI::App &app, Invocation &invocation);
void addGenerateCommand(CLI::App &app, Invocation &invocation);
void addMasksCommand(CLI::App &app, Invocation &invocation);
void addExportCommand(CLI::App &app, Invocation &invocation);
void addDoctorCommand(CLI::App &app, Invocation &invocation);

} // namespace sluice::cli
