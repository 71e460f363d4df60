// Where results that can be made again are kept on this machine.
#pragma once

#include <string>

namespace sluice {

/// $SLUICE_CACHE, else $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; empty when none of the variables is set.
/// The folder may not exist, and may not be writable.
std::string cacheFolder();

} // namespace sluice
