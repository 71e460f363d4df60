// Paths that a person names on the command line: what is not there is a fault of the command, not of a file.
#pragma once

#include "runtime/support/Status.h"

#include <string>

namespace sluice::cli {

/// Something to read must be there. `option` is how the command line calls it ("--weights", "MODEL"), `what`
/// what it should be ("a safetensors file"). Error (usage): nothing at `path`, with the nearest name in its
/// folder.
Status requireInput(const std::string &option, const std::string &path, const std::string &what);

/// The folder in which `path` will be written must be there. Error (usage): it is not.
Status requireOutput(const std::string &option, const std::string &path);

/// A folder made by `data pack`. Error (usage): there is none.
Status requireDataset(const std::string &option, const std::string &path);

} // namespace sluice::cli
