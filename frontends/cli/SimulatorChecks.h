// `exec --check`: the simulated driver's checks around a run.
#pragma once

#include "runtime/support/Status.h"

#include <string>

namespace sluice::cli {

/// Turns checks of the driver `library` on, for launches from now on: "memory,race", "all". Errors: no such
/// library (failure); a check that there is not (usage).
Status startChecks(const std::string &library, const std::string &checks);

/// OK when nothing was found since, else a failure with a line for each finding: check, kernel, source line,
/// the model's op, what is wrong.
Status finishChecks(const std::string &library);

} // namespace sluice::cli
