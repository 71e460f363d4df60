// The metrics of a run as JSON lines, the source of truth for every report: appended, never rewritten.
#pragma once

#include "runtime/support/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace sluice {

inline constexpr const char *metricsSchema = "sluice-metrics-1";
/// The field in which a line says which of its nulls were not finite: {"/loss": "nan", "/layers/0/load":
/// "inf"}. Keys are JSON pointers; values are "nan", "inf" or "-inf". Absent when every number is finite.
inline constexpr const char *notFiniteKey = "not_finite";

/// Writes <run>/metrics.jsonl. Line 1 is {"schema": ..., "run_id": ...}; every other line is one record,
/// written by one write(2) to a file opened with O_APPEND, so that a reader never sees two lines mixed and a
/// crash tears the last line at most. Movable; closes on destruction.
class MetricsWriter {
public:
  /// Starts a file. A usage error when it exists already.
  static StatusOr<MetricsWriter> create(const std::string &path, const std::string &runId);

  /// Continues a file after the checkpoint of `step`, which stored `offset` (see below). What follows the
  /// offset was measured after the checkpoint and will be measured again: it is copied to
  /// metrics.tail-<step>.jsonl beside the file (metrics.tail-<step>.2.jsonl and so on where that exists),
  /// synced, and only then cut off. Offset 0 starts anew. Errors: a file that is shorter than the offset, of
  /// another run, or cut within a line.
  static StatusOr<MetricsWriter> resume(const std::string &path, const std::string &runId, uint64_t offset,
                                        uint64_t step);

  /// Appends an object as one line. NaN and infinities become null and are listed under `notFiniteKey`. On an
  /// error (also when the disk took only a part) the file ends where it ended before.
  Status write(const nlohmann::ordered_json &record);

  /// Bytes written so far, for the checkpoint's state. Call `sync` first: then the file never falls behind
  /// the checkpoint.
  uint64_t offset() const { return size; }
  Status sync();

  MetricsWriter(MetricsWriter &&other) noexcept;
  MetricsWriter &operator=(MetricsWriter &&other) noexcept;
  ~MetricsWriter();

private:
  MetricsWriter(std::string path, int file) : path(std::move(path)), file(file) {}
  Status append(const std::string &line);
  Status writeHeader(const std::string &runId);
  Status cutTail(uint64_t offset, uint64_t step);

  std::string path;
  int file = -1;
  uint64_t size = 0;
};

} // namespace sluice
