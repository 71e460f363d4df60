#include "runtime/support/HostMemory.h"

#include "runtime/support/File.h"

#include <algorithm>
#include <cstdlib>

namespace sluice {
namespace {

/// The number behind `key` in a text like "MemAvailable:   123 kB"; 0 when absent.
uint64_t numberAfter(const std::string &text, const std::string &key) {
  size_t found = text.find(key);
  return found == std::string::npos ? 0 : std::strtoull(text.c_str() + found + key.size(), nullptr, 10);
}

uint64_t numberIn(const std::string &path) {
  StatusOr<std::string> text = readFile(path);
  return text.ok() ? std::strtoull(text->c_str(), nullptr, 10) : 0; // "max" gives 0: no limit
}

} // namespace

uint64_t availableHostMemory() {
  uint64_t available = 0;
  if (StatusOr<std::string> text = readFile("/proc/meminfo"); text.ok())
    available = numberAfter(*text, "MemAvailable:") * 1024;
  // The root of this process's control group, version 2.
  uint64_t limit = numberIn("/sys/fs/cgroup/memory.max");
  if (limit > 0) {
    uint64_t used = std::min(limit, numberIn("/sys/fs/cgroup/memory.current"));
    // Page cache counts as used but can be given back.
    uint64_t cache = 0;
    if (StatusOr<std::string> text = readFile("/sys/fs/cgroup/memory.stat"); text.ok())
      cache = numberAfter(*text, "inactive_file ");
    uint64_t left = limit - used + std::min(used, cache);
    available = available == 0 ? left : std::min(available, left);
  }
  return available;
}

} // namespace sluice
