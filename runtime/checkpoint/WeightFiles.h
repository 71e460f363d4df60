// The weights of a model as they lie on disk: one safetensors file, or a folder with shards and their index.
#pragma once

#include "runtime/checkpoint/Safetensors.h"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// All tensors of a model. Movable; views live as long as the object.
class WeightFiles {
public:
  /// `path` is a safetensors file, an index (*.index.json), or a folder with model.safetensors or, failing
  /// that, model.safetensors.index.json ({"metadata": {...}, "weight_map": {tensor: shard}}). Shards are
  /// plain file names in the index's folder. Errors: no such file, a damaged file, a tensor that its shard
  /// lacks, a tensor in two shards.
  static StatusOr<WeightFiles> open(const std::string &path);

  /// The tensor, or null.
  const TensorView *find(std::string_view name) const;
  /// The names of all tensors, sorted.
  const std::vector<std::string> &names() const { return sortedNames; }
  const std::vector<SafetensorsFile> &files() const { return shards; }

private:
  Status openIndex(const std::string &path);
  Status collect();

  std::vector<SafetensorsFile> shards;
  absl::flat_hash_map<std::string, size_t> shardOf;
  std::vector<std::string> sortedNames;
};

} // namespace sluice
