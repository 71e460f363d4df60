// Reader of metrics.jsonl: strict about whole lines, tolerant of the one line that a crash tore.
#pragma once

#include "runtime/support/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct MetricsFile {
  std::string runId;
  std::vector<nlohmann::json> records; // the lines after the first
  uint64_t wholeBytes = 0;             // up to the end of the last whole line
  std::string torn;                    // what follows it: the line that a crash interrupted, usually empty
};

/// Reads a file. Errors: the system's; a first line that is no header of ours; a damaged line other than the
/// last.
StatusOr<MetricsFile> readMetrics(const std::string &path);
/// The same for text in memory; `place` names it in messages.
StatusOr<MetricsFile> parseMetrics(std::string_view text, const std::string &place);

/// A top-level number of a record, with NaN and infinities as they were measured; nothing when there is none.
std::optional<double> metricOf(const nlohmann::json &record, const std::string &key);

} // namespace sluice
