#include "runtime/support/CacheFolder.h"

#include <cstdlib>

namespace sluice {

std::string cacheFolder() {
  if (const char *folder = std::getenv("SLUICE_CACHE"))
    return folder;
  if (const char *folder = std::getenv("XDG_CACHE_HOME"))
    return std::string(folder) + "/sluice";
  if (const char *home = std::getenv("HOME"))
    return std::string(home) + "/.cache/sluice";
  return "";
}

} // namespace sluice
