// How much memory the host can still give.
#pragma once

#include <cstdint>

namespace sluice {

/// Bytes of memory that this process can still take: the least of what the system calls available and what is
/// left of the control group's limit. 0 when neither is known.
uint64_t availableHostMemory();

} // namespace sluice
