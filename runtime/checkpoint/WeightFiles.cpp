#include "runtime/checkpoint/WeightFiles.h"

#include "runtime/checkpoint/StrictJson.h"

#include <algorithm>
#include <sys/stat.h>

namespace sluice {
namespace {

constexpr const char *indexName = "model.safetensors.index.json";

bool isFolder(const std::string &path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(const std::string &path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

} // namespace

StatusOr<WeightFiles> WeightFiles::open(const std::string &path) {
  WeightFiles weights;
  std::string file = path;
  if (isFolder(path)) {
    file = concat(path, "/model.safetensors");
    if (!exists(file))
      file = concat(path, "/", indexName);
    if (!exists(file))
      return absl::NotFoundError(concat("weights folder '", path, "': expected model.safetensors or ",
                                        indexName, " in it, found neither"));
  }
  if (endsWith(file, ".json")) {
    SLUICE_RETURN_IF_ERROR(weights.openIndex(file));
  } else {
    SLUICE_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::open(file));
    weights.shards.push_back(std::move(opened));
    SLUICE_RETURN_IF_ERROR(weights.collect());
  }
  return weights;
}

Status WeightFiles::openIndex(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(std::string text, readFile(path));
  SLUICE_ASSIGN_OR_RETURN(nlohmann::json index, parseStrictJson(text, path, /*maxDepth=*/16));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return badInputError(path, ": expected an object with weight_map (tensor to shard), found none");
  const nlohmann::json &map = index["weight_map"];

  std::vector<std::string> shardNames;
  for (const auto &[tensor, shard] : map.items()) {
    if (!shard.is_string())
      return badInputError(path, ": weight_map ", inQuotes(tensor), ": expected the name of a shard, found ",
                           shard.type_name());
    const auto &name = shard.get_ref<const std::string &>();
    if (!isPlainFileName(name) || !endsWith(name, ".safetensors"))
      return badInputError(path, ": weight_map ", inQuotes(tensor),
                           ": expected a plain file name that ends in .safetensors, found ", inQuotes(name));
    shardNames.push_back(name);
  }
  std::sort(shardNames.begin(), shardNames.end());
  shardNames.erase(std::unique(shardNames.begin(), shardNames.end()), shardNames.end());

  size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  for (const std::string &name : shardNames) {
    StatusOr<SafetensorsFile> shard = SafetensorsFile::open(folder + name);
    if (absl::IsNotFound(shard.status()))
      return badInputError(path, ": expected the shard ", inQuotes(name), " beside it, found no such file");
    SLUICE_RETURN_IF_ERROR(shard.status());
    shards.push_back(std::move(*shard));
  }
  SLUICE_RETURN_IF_ERROR(collect());

  for (const auto &[tensor, shard] : map.items()) {
    auto found = shardOf.find(tensor);
    if (found == shardOf.end() || shardNames[found->second] != shard.get_ref<const std::string &>())
      return badInputError(path, ": expected tensor ", inQuotes(tensor), " in ",
                           inQuotes(shard.get_ref<const std::string &>()), ", found it ",
                           found == shardOf.end() ? "nowhere"
                                                  : concat("in ", inQuotes(shardNames[found->second])));
  }
  if (shardOf.size() != map.size())
    return badInputError(path, ": expected weight_map to list all ", shardOf.size(),
                         " tensors of its shards, found ", map.size());
  return absl::OkStatus();
}

Status WeightFiles::collect() {
  for (size_t i = 0; i < shards.size(); ++i)
    for (const TensorView &view : shards[i].tensors()) {
      if (!shardOf.emplace(view.name, i).second)
        return badInputError(shards[i].path(), ": tensor ", inQuotes(view.name), " is also in ",
                             shards[shardOf[view.name]].path(), "; expected it in one shard");
      sortedNames.push_back(view.name);
    }
  std::sort(sortedNames.begin(), sortedNames.end());
  return absl::OkStatus();
}

const TensorView *WeightFiles::find(std::string_view name) const {
  auto found = shardOf.find(absl::string_view(name.data(), name.size()));
  return found == shardOf.end() ? nullptr : shards[found->second].find(name);
}

} // namespace sluice
