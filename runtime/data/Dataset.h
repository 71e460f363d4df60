// A packed dataset: a folder with dataset.json, tokenizer.model and the shards of two splits.
#pragma once

#include "runtime/data/Shard.h"
#include "runtime/data/Tokenizer.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Totals of a split. `tokens` counts the documents' own tokens, without delimiters.
struct SplitTotals {
  uint64_t documents = 0, tokens = 0, bytes = 0, characters = 0;
  double bytesPerToken() const {
    return tokens ? static_cast<double>(bytes) / static_cast<double>(tokens) : 0.0;
  }
};

/// A shard as dataset.json lists it: the file's name inside the folder, and the shard's content hash.
struct ShardEntry {
  std::string file, hash;
};

/// The documents of one split, numbered through all its shards in order.
class Split {
public:
  const std::string &name() const { return splitName; }
  const SplitTotals &totals() const { return sums; }
  uint64_t documents() const { return sums.documents; }
  /// 0 <= index < documents(); valid as long as the dataset.
  DocumentView document(uint64_t index) const;
  /// SHA-256 over the shards' content hashes: names this split's content.
  const std::string &hash() const { return sha256; }

private:
  friend class Dataset;
  std::string splitName, sha256;
  std::vector<Shard> shards;
  std::vector<uint64_t> firstDocument; // of each shard
  SplitTotals sums;
};

/// What dataset.json says beside the splits.
struct DatasetDescription {
  std::string documents = "paragraph"; // how texts were parted: file, paragraph, line, jsonl:KEY
  double validationFraction = 0.05;
};

class Dataset {
public:
  static constexpr const char *descriptionFile = "dataset.json";
  static constexpr const char *tokenizerFile = "tokenizer.model";

  /// Opens and checks everything: the description, the tokenizer's hash, each shard (see Shard::open) against
  /// the description and the tokenizer, and per document that its tokens cover its bytes and characters.
  /// Errors: not found; bad input (path, what was expected, what was found).
  static StatusOr<Dataset> open(const std::string &folder);

  /// The text of dataset.json for a dataset that is being written.
  static std::string describe(const DatasetDescription &description, const Tokenizer &tokenizer,
                              const SplitTotals &train, const std::vector<ShardEntry> &trainShards,
                              const SplitTotals &validation, const std::vector<ShardEntry> &validationShards);

  const Tokenizer &tokenizer() const { return datasetTokenizer; }
  const Split &train() const { return trainSplit; }
  const Split &validation() const { return validationSplit; }
  const DatasetDescription &description() const { return described; }
  /// SHA-256 over the tokenizer's hash and both splits' hashes: names the dataset's content.
  const std::string &hash() const { return sha256; }

private:
  Tokenizer datasetTokenizer;
  Split trainSplit, validationSplit;
  DatasetDescription described;
  std::string sha256;
};

} // namespace sluice
