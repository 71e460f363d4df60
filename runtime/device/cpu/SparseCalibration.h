// Measures on this host from which density on skipping zeros pays.
#pragma once

#include "runtime/abi/BreakEven.h"

namespace sluice::cpu {

/// The break-even of a masked matrix on this host: times both kinds of kernels on one thread with random
/// masks at two densities, takes the time that skips zeros to grow linearly with the kept weights, and
/// returns where it meets the dense time, at most 50 percent for single weights and 90 for blocks. Large
/// matrices are cut to what a cache holds. Takes some tens of milliseconds; zeros where a kernel cannot be
/// made.
BreakEven measureBreakEven(const MaskedShape &shape);

} // namespace sluice::cpu
