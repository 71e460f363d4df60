#include "runtime/metrics/MetricsReader.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/metrics/MetricsWriter.h"
#include "runtime/support/File.h"

#include <limits>

namespace sluice {

StatusOr<MetricsFile> readMetrics(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(std::string text, readFile(path));
  return parseMetrics(text, path);
}

StatusOr<MetricsFile> parseMetrics(std::string_view text, const std::string &place) {
  MetricsFile file;
  for (size_t line = 1; !text.empty(); ++line) {
    size_t end = text.find('\n');
    const bool last = end == std::string_view::npos || end + 1 == text.size();
    const std::string_view content = text.substr(0, end);
    StatusOr<nlohmann::json> value = parseStrictJson(content, concat(place, ":", line));
    if (value.ok() && !value->is_object())
      value =
          badInputError(place, ":", line, ": expected one JSON object a line, found ", value->type_name());
    if (end == std::string_view::npos || (!value.ok() && last && line > 1)) {
      file.torn = std::string(text);
      break;
    }
    SLUICE_RETURN_IF_ERROR(value.status());
    if (line == 1) {
      if (value->value("schema", nlohmann::json()) != metricsSchema || !value->contains("run_id") ||
          !(*value)["run_id"].is_string())
        return badInputError(place, ":1: expected {\"schema\": \"", metricsSchema,
                             "\", \"run_id\": ...}, found ", inQuotes(content));
      file.runId = (*value)["run_id"];
    } else {
      file.records.push_back(std::move(*value));
    }
    text.remove_prefix(end + 1);
    file.wholeBytes += end + 1;
  }
  if (file.wholeBytes == 0)
    return badInputError(place, ":1: expected a first line with schema and run_id, found ",
                         file.torn.empty() ? "an empty file" : inQuotes(file.torn));
  return file;
}

std::optional<double> metricOf(const nlohmann::json &record, const std::string &key) {
  auto found = record.find(key);
  if (found == record.end())
    return std::nullopt;
  if (found->is_number())
    return found->get<double>();
  auto flags = record.find(notFiniteKey);
  if (!found->is_null() || flags == record.end() || !flags->is_object())
    return std::nullopt;
  const std::string flag = flags->value("/" + key, std::string());
  if (flag == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  if (flag == "inf" || flag == "-inf")
    return flag[0] == '-' ? -std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::infinity();
  return std::nullopt;
}

} // namespace sluice
