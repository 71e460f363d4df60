#include "runtime/device/cudasim/Settings.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace sluice::cudasim {

namespace {

Status applyChecks(const std::string &value, CheckSet &checks) {
  checks = {};
  const std::vector<std::string> names = absl::StrSplit(value, ',', absl::SkipEmpty());
  for (const std::string &name : names) {
    bool known = false;
    for (int i = 0; i < kCheckCount; ++i) {
      const Check check = static_cast<Check>(i);
      if (name == checkName(check) || name == "all") {
        checks.add(check);
        known = true;
      }
    }
    if (!known && name != "none")
      return usageError(
          "simulated device: expected a check of memory, init, race, barrier, launch (or all, none), found '",
          name, "'");
  }
  return absl::OkStatus();
}

} // namespace

Status applySettings(std::string_view text, Settings &settings) {
  const std::string copy(text);
  const std::vector<std::string> parts = absl::StrSplit(copy, ';', absl::SkipWhitespace());
  for (const std::string &part : parts) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    uint64_t number = 0;
    const bool isNumber = absl::SimpleAtoi(value, &number);
    const auto bad = [&](std::string_view expectation) {
      return usageError("simulated device: expected ", key, "=", expectation, ", found '", value, "'");
    };
    if (key == "check") {
      SLUICE_RETURN_IF_ERROR(applyChecks(value, settings.checks));
    } else if (key == "seed") {
      if (!isNumber)
        return bad("a number");
      settings.seed = number;
    } else if (key == "threads") {
      if (!isNumber || number > 1024)
        return bad("0 to 1024");
      settings.threads = static_cast<int>(number);
    } else if (key == "arch") {
      if (!isNumber || number < 75 || number > 129)
        return bad("75 to 129, such as 80 for sm_80");
      settings.architecture = static_cast<int>(number);
    } else if (key == "memory") {
      if (!isNumber || number < (1 << 20) || number > (uint64_t(1) << 38))
        return bad("a number of bytes from 1 MiB to 256 GiB");
      settings.memory = number;
    } else if (key == "statistics") {
      if (value != "0" && value != "1")
        return bad("0 or 1");
      settings.statistics = value == "1";
    } else if (key == "report") {
      settings.report = value;
      settings.statistics = settings.statistics || !value.empty();
    } else {
      return usageError(
          "simulated device: expected check, seed, threads, arch, memory, statistics or report, found '", key,
          "'");
    }
  }
  return absl::OkStatus();
}

} // namespace sluice::cudasim
