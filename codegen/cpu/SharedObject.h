// An object file as a shared object that the runtime loads from memory.
#pragma once

#include "runtime/support/Status.h"

#include <string>

namespace sluice::cpu {

/// Links `object` with the system's ld.lld (version 22 preferred); undefined symbols are errors. Errors: no
/// linker on the PATH (failure, with the package to install), the linker's own message.
StatusOr<std::string> linkSharedObject(const std::string &object);

} // namespace sluice::cpu
