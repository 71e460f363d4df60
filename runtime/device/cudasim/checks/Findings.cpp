#include "runtime/device/cudasim/checks/Findings.h"

#include "runtime/support/Status.h"

#include <algorithm>

namespace sluice::cudasim {

std::string_view checkName(Check check) {
  constexpr std::string_view names[kCheckCount] = {"memory", "init", "race", "barrier", "launch"};
  return names[static_cast<int>(check)];
}

std::string Finding::text() const {
  std::string result = concat(checkName(check), ": kernel '", kernel, "'");
  if (check != Check::Launch)
    result += absl::StrFormat(" at %s (%s), block (%d,%d,%d), thread (%d,%d,%d)", place, instruction,
                              block[0], block[1], block[2], thread[0], thread[1], thread[2]);
  if (!label.empty())
    result += concat(", in ", label);
  result += concat(": ", message);
  if (count > 1)
    result += concat(", ", count, " times");
  return result;
}

void FindingLog::add(Finding finding) {
  std::lock_guard lock(mutex);
  auto [found, added] =
      findings.try_emplace(Key(finding.check, finding.kernel, finding.place, finding.instruction), finding);
  if (added)
    return;
  const uint64_t count = found->second.count + finding.count;
  const auto order = [](const Finding &f) {
    return std::tuple(f.blockIndex, f.thread[2], f.thread[1], f.thread[0], f.address);
  };
  if (order(finding) < order(found->second))
    found->second = std::move(finding);
  found->second.count = count;
}

std::vector<Finding> FindingLog::all() const {
  std::lock_guard lock(mutex);
  std::vector<Finding> list;
  list.reserve(findings.size());
  for (const auto &[key, finding] : findings)
    list.push_back(finding);
  return list;
}

bool FindingLog::empty() const {
  std::lock_guard lock(mutex);
  return findings.empty();
}

void FindingLog::clear() {
  std::lock_guard lock(mutex);
  findings.clear();
}

} // namespace sluice::cudasim
