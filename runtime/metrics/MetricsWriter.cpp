#include "runtime/metrics/MetricsWriter.h"

#include "runtime/metrics/MetricsReader.h"
#include "runtime/support/File.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Status systemError(std::string_view what, const std::string &path) {
  return failure("cannot ", what, " '", path, "': ", std::strerror(errno));
}

/// A key as part of a JSON pointer (RFC 6901).
std::string escaped(const std::string &key) {
  std::string text;
  for (char c : key)
    text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

/// Replaces NaN and infinities by null and notes where they were.
void replaceNotFinite(Json &value, const std::string &pointer, Json &found) {
  if (value.is_number_float()) {
    double number = value.get<double>();
    if (std::isfinite(number))
      return;
    found[pointer] = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
    value = nullptr;
  } else if (value.is_object()) {
    for (auto &[key, member] : value.items())
      replaceNotFinite(member, concat(pointer, "/", escaped(key)), found);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      replaceNotFinite(value[i], concat(pointer, "/", i), found);
  }
}

/// A free name for the tail: metrics.tail-7.jsonl beside metrics.jsonl, then metrics.tail-7.2.jsonl and so
/// on.
std::string tailPath(const std::string &path, uint64_t step) {
  constexpr std::string_view ending = ".jsonl";
  std::string stem = path;
  if (stem.size() > ending.size() && stem.compare(stem.size() - ending.size(), ending.size(), ending) == 0)
    stem.resize(stem.size() - ending.size());
  for (int copy = 1;; ++copy) {
    std::string candidate = concat(stem, ".tail-", step, copy == 1 ? "" : concat(".", copy), ending);
    if (::access(candidate.c_str(), F_OK) != 0)
      return candidate;
  }
}

} // namespace

StatusOr<MetricsWriter> MetricsWriter::create(const std::string &path, const std::string &runId) {
  int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0 && errno == EEXIST)
    return usageError("metrics '", path,
                      "': expected no such file for a new run, found one; resume the run or choose "
                      "another folder");
  if (file < 0)
    return systemError("create", path);
  MetricsWriter writer(path, file);
  SLUICE_RETURN_IF_ERROR(writer.writeHeader(runId));
  return writer;
}

StatusOr<MetricsWriter> MetricsWriter::resume(const std::string &path, const std::string &runId,
                                              uint64_t offset, uint64_t step) {
  int file = ::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | (offset == 0 ? O_CREAT : 0), 0644);
  if (file < 0)
    return systemError("open", path);
  MetricsWriter writer(path, file);
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, readFile(path));
  if (bytes.size() < offset)
    return badInputError("metrics '", path, "': expected at least the ", offset,
                         " bytes of the checkpoint of step ", step, ", found ", bytes.size(),
                         "; restore the file or start in another folder");
  if (offset > 0) {
    if (bytes[offset - 1] != '\n')
      return badInputError("metrics '", path, "': expected a line to end at byte ", offset,
                           " as the checkpoint says, found the middle of one; the file was changed");
    SLUICE_ASSIGN_OR_RETURN(MetricsFile head, parseMetrics(bytes.substr(0, bytes.find('\n') + 1), path));
    if (head.runId != runId)
      return badInputError("metrics '", path, "': expected run ", runId, ", found run ", head.runId,
                           "; the file belongs to another run");
  }
  if (bytes.size() > offset)
    SLUICE_RETURN_IF_ERROR(writer.cutTail(offset, step));
  writer.size = offset;
  if (offset == 0)
    SLUICE_RETURN_IF_ERROR(writer.writeHeader(runId));
  return writer;
}

Status MetricsWriter::cutTail(uint64_t offset, uint64_t step) {
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, readFile(path));
  SLUICE_RETURN_IF_ERROR(writeFileAtomically(tailPath(path, step), std::string_view(bytes).substr(offset)));
  if (::ftruncate(file, static_cast<off_t>(offset)) != 0)
    return systemError("cut", path);
  return sync();
}

Status MetricsWriter::writeHeader(const std::string &runId) {
  return write({{"schema", metricsSchema}, {"run_id", runId}});
}

Status MetricsWriter::write(const Json &record) {
  if (!record.is_object() || record.contains(notFiniteKey))
    return failure("metrics '", path, "': expected an object without the key ", notFiniteKey);
  Json line = record, notFinite = Json::object();
  replaceNotFinite(line, "", notFinite);
  if (!notFinite.empty())
    line[notFiniteKey] = std::move(notFinite);
  try {
    return append(line.dump() + "\n");
  } catch (const Json::exception &) {
    return failure("metrics '", path, "': a text in the record is not UTF-8");
  }
}

Status MetricsWriter::append(const std::string &line) {
  ssize_t count;
  do
    count = ::write(file, line.data(), line.size());
  while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(line.size())) {
    size += line.size();
    return absl::OkStatus();
  }
  Status status = count < 0 ? systemError("write", path)
                            : failure("cannot write '", path, "': expected to write ", line.size(),
                                      " bytes, wrote ", count, "; free some disk space");
  // A part of a line would be glued to the next one.
  if (::ftruncate(file, static_cast<off_t>(size)) != 0)
    return systemError("cut a torn line from", path);
  return status;
}

Status MetricsWriter::sync() {
  return ::fsync(file) == 0 ? absl::OkStatus() : systemError("sync", path);
}

MetricsWriter::MetricsWriter(MetricsWriter &&other) noexcept
    : path(std::move(other.path)), file(std::exchange(other.file, -1)), size(other.size) {}

MetricsWriter &MetricsWriter::operator=(MetricsWriter &&other) noexcept {
  std::swap(path, other.path);
  std::swap(file, other.file);
  std::swap(size, other.size);
  return *this;
}

MetricsWriter::~MetricsWriter() {
  if (file >= 0)
    ::close(file);
}

} // namespace sluice
