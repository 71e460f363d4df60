#include "runtime/checkpoint/Manifest.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/support/Hash.h"

#include <initializer_list>

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr const char *formatName = "sluice-checkpoint";
const std::string noChecksum(64, '0');

bool isSha256(const Json &value) {
  return value.is_string() && value.get_ref<const std::string &>().size() == 64 &&
         value.get_ref<const std::string &>().find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Exactly these keys, no more: an unknown one may mean something that this version would miss.
bool hasKeys(const Json &object, std::initializer_list<const char *> keys) {
  if (!object.is_object() || object.size() != keys.size())
    return false;
  for (const char *key : keys)
    if (!object.contains(key))
      return false;
  return true;
}

StatusOr<std::string> hashOf(FileSystem &fileSystem, const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(int file, fileSystem.openForReading(path));
  Sha256 hash;
  std::string piece(1 << 20, '\0');
  StatusOr<size_t> count;
  while ((count = fileSystem.read(file, piece.data(), piece.size(), path)).ok() && *count > 0)
    hash.update(piece.data(), *count);
  Status closed = fileSystem.close(file, path);
  SLUICE_RETURN_IF_ERROR(count.status());
  SLUICE_RETURN_IF_ERROR(closed);
  return toHex(hash.finish());
}

} // namespace

StatusOr<std::string> Manifest::text() const {
  nlohmann::ordered_json root;
  root["format"] = formatName;
  root["version"] = checkpointVersion;
  root["step"] = step;
  root["checksum"] = noChecksum;
  root["files"] = nlohmann::ordered_json::array();
  for (const ManifestFile &file : files) {
    if (!isPlainFileName(file.name) || file.name == manifestName)
      return failure("cannot write a manifest with the file name ", inQuotes(file.name),
                     ": expected a plain name");
    root["files"].push_back({{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}});
  }
  std::string text;
  try {
    text = root.dump(1) + "\n";
  } catch (const Json::exception &) {
    return failure("cannot write a manifest: a file's name is not UTF-8");
  }
  return text.replace(text.find(noChecksum), noChecksum.size(), sha256Hex(text));
}

StatusOr<Manifest> Manifest::parse(std::string_view text, const std::string &place) {
  SLUICE_ASSIGN_OR_RETURN(Json root, parseStrictJson(text, place, /*maxDepth=*/4));
  if (!root.is_object() || root.value("format", Json()) != formatName)
    return badInputError(place, ": expected a checkpoint's manifest, found other JSON");
  if (root.value("version", Json()) != checkpointVersion)
    return badInputError(place, ": expected checkpoint version ", checkpointVersion, ", found ",
                         root.value("version", Json()).dump(), "; use the program that wrote it");
  if (!hasKeys(root, {"format", "version", "step", "checksum", "files"}) ||
      !root["step"].is_number_unsigned() || !isSha256(root["checksum"]) || !root["files"].is_array())
    return badInputError(place,
                         ": expected format, version, step, checksum and files, found other keys or types");

  const auto &checksum = root["checksum"].get_ref<const std::string &>();
  std::string blank(text);
  size_t position = blank.find(checksum);
  if (position == std::string::npos)
    return badInputError(place, ": expected its checksum in plain text, found it escaped");
  blank.replace(position, checksum.size(), noChecksum);
  if (sha256Hex(blank) != checksum)
    return badInputError(place, ": expected the checksum ", sha256Hex(blank), ", found ", checksum,
                         "; the manifest is damaged");

  Manifest manifest;
  manifest.step = root["step"];
  for (const Json &entry : root["files"]) {
    if (!hasKeys(entry, {"name", "size", "sha256"}) || !entry["name"].is_string() ||
        !isPlainFileName(entry["name"].get_ref<const std::string &>()) ||
        !entry["size"].is_number_unsigned() || !isSha256(entry["sha256"]))
      return badInputError(place,
                           ": expected files with a plain name, size and sha256, found something else");
    if (manifest.find(entry["name"].get_ref<const std::string &>()))
      return badInputError(place, ": expected every file once, found ",
                           inQuotes(entry["name"].get<std::string>()), " twice");
    manifest.files.push_back({entry["name"], entry["size"], entry["sha256"]});
  }
  return manifest;
}

const ManifestFile *Manifest::find(std::string_view name) const {
  for (const ManifestFile &file : files)
    if (file.name == name)
      return &file;
  return nullptr;
}

StatusOr<Manifest> verifySizes(FileSystem &fileSystem, const std::string &folder) {
  const std::string path = concat(folder, "/", manifestName);
  SLUICE_ASSIGN_OR_RETURN(std::string text, fileSystem.readAll(path));
  SLUICE_ASSIGN_OR_RETURN(Manifest manifest, Manifest::parse(text, path));
  for (const ManifestFile &file : manifest.files) {
    const std::string filePath = concat(folder, "/", file.name);
    SLUICE_ASSIGN_OR_RETURN(FileInfo info, fileSystem.info(filePath));
    if (info.kind != FileInfo::Kind::File || info.size != file.size)
      return badInputError(filePath, ": expected a file of ", file.size, " bytes, found ",
                           info.kind == FileInfo::Kind::File ? concat(info.size, " bytes")
                                                             : "no regular file");
  }
  return manifest;
}

StatusOr<Manifest> verifyContents(FileSystem &fileSystem, const std::string &folder) {
  SLUICE_ASSIGN_OR_RETURN(Manifest manifest, verifySizes(fileSystem, folder));
  for (const ManifestFile &file : manifest.files) {
    const std::string path = concat(folder, "/", file.name);
    SLUICE_ASSIGN_OR_RETURN(std::string hash, hashOf(fileSystem, path));
    if (hash != file.sha256)
      return badInputError(path, ": expected the SHA-256 ", file.sha256, " of the manifest, found ", hash,
                           "; the file is damaged");
  }
  return manifest;
}

} // namespace sluice
