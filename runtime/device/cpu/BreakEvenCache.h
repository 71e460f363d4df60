// Break-evens of this machine, measured once.
#pragma once

#include "runtime/abi/BreakEven.h"

namespace sluice::cpu {

/// What measureBreakEven said of a matrix of this shape on this processor: from the machine's cache folder
/// (runtime/support/CacheFolder.h), else measured now and kept there. So compiling a model again makes the
/// same choices. Where the folder cannot be written, or a file there is damaged, it is measured anew.
BreakEven knownBreakEven(const MaskedShape &shape);

} // namespace sluice::cpu
