#include "frontends/cli/SimulatorChecks.h"

#include <algorithm>
#include <dlfcn.h>

namespace sluice::cli {
namespace {

/// The simulated driver's own function; null where the library or the function is not there.
template <typename Function> Function *find(const std::string &library, const char *name) {
  void *handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle ? reinterpret_cast<Function *>(::dlsym(handle, name)) : nullptr;
}

} // namespace

Status startChecks(const std::string &library, const std::string &checks) {
  auto *configure = find<int(const char *)>(library, "cudasimConfigure");
  auto *clear = find<void()>(library, "cudasimClearFindings");
  if (!configure || !clear)
    return failure("--check: ", library, " is no simulated driver");
  clear();
  // A list would end at the next setting.
  if (checks.find(';') != std::string::npos || configure(concat("check=", checks).c_str()) != 0)
    return usageError("--check: expected some of memory, init, race, barrier, launch, or all, found '",
                      checks, "'");
  return absl::OkStatus();
}

Status finishChecks(const std::string &library) {
  auto *findings = find<const char *()>(library, "cudasimFindings");
  const std::string text = findings ? findings() : "";
  if (text.empty())
    return absl::OkStatus();
  return failure("--check: expected no finding, found ", std::count(text.begin(), text.end(), '\n'), ":\n",
                 text);
}

} // namespace sluice::cli
