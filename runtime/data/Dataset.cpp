#include "runtime/data/Dataset.h"

#include "runtime/support/Hash.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *formatName = "sluice.dataset";
constexpr int formatVersion = 1;

std::string splitHash(const std::vector<ShardEntry> &shards) {
  std::string hashes;
  for (const ShardEntry &shard : shards)
    hashes += shard.hash;
  return sha256Hex(hashes);
}

std::string datasetHash(const std::string &tokenizer, const std::string &train,
                        const std::string &validation) {
  return sha256Hex(tokenizer + train + validation);
}

Json splitJson(const SplitTotals &totals, const std::vector<ShardEntry> &shards) {
  Json list = Json::array();
  for (const ShardEntry &shard : shards)
    list.push_back({{"file", shard.file}, {"sha256", shard.hash}});
  return {{"documents", totals.documents},   {"tokens", totals.tokens}, {"bytes", totals.bytes},
          {"characters", totals.characters}, {"shards", list},          {"sha256", splitHash(shards)}};
}

/// dataset.json as plain values.
struct Parsed {
  struct ParsedSplit {
    SplitTotals totals;
    std::vector<ShardEntry> shards;
    std::string hash;
  };
  DatasetDescription description;
  std::string tokenizerHash, hash;
  uint64_t vocabulary = 0;
  int64_t delimiter = 0;
  ParsedSplit train, validation;
};

Parsed::ParsedSplit parseSplit(const Json &json) {
  Parsed::ParsedSplit split;
  split.totals = {json.at("documents").get<uint64_t>(), json.at("tokens").get<uint64_t>(),
                  json.at("bytes").get<uint64_t>(), json.at("characters").get<uint64_t>()};
  for (const Json &shard : json.at("shards"))
    split.shards.push_back({shard.at("file").get<std::string>(), shard.at("sha256").get<std::string>()});
  split.hash = json.at("sha256").get<std::string>();
  return split;
}

StatusOr<Parsed> parseDescription(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(std::string text, readFile(path));
  try {
    Json json = Json::parse(text);
    if (json.at("format") != formatName || json.at("version") != formatVersion)
      return badInputError("'", path, "': expected format ", formatName, " version ", formatVersion,
                           ", found ", json.at("format").dump(), " version ", json.at("version").dump());
    Parsed parsed;
    parsed.description.documents = json.at("documents").get<std::string>();
    parsed.description.validationFraction = json.at("validation_fraction").get<double>();
    const Json &tokenizer = json.at("tokenizer");
    parsed.tokenizerHash = tokenizer.at("sha256").get<std::string>();
    parsed.vocabulary = tokenizer.at("vocabulary").get<uint64_t>();
    parsed.delimiter = tokenizer.at("delimiter").get<int64_t>();
    parsed.train = parseSplit(json.at("train"));
    parsed.validation = parseSplit(json.at("validation"));
    parsed.hash = json.at("sha256").get<std::string>();
    return parsed;
  } catch (const nlohmann::json::exception &error) {
    return badInputError("'", path, "': expected a dataset's description, found: ", error.what());
  }
}

/// Per document, the tokens' lengths must add up to the text that the table promises; bits per byte rest on
/// it.
Status checkLengths(const std::string &path, const Shard &shard, const Tokenizer &tokenizer) {
  const TokenLength *lengths = tokenizer.lengths().data();
  std::vector<int32_t> ids;
  for (uint64_t index = 0; index < shard.documents(); ++index) {
    DocumentView document = shard.document(index);
    ids.resize(document.tokens);
    document.copy(0, document.tokens, ids.data());
    uint64_t bytes = 0, characters = 0;
    for (int32_t id : ids) {
      bytes += lengths[id].bytes;
      characters += lengths[id].characters;
    }
    if (bytes != document.bytes || characters != document.characters)
      return badInputError("'", path, "': document ", index, ": its tokens cover ", bytes, " bytes and ",
                           characters, " characters, the table says ", document.bytes, " and ",
                           document.characters);
  }
  return absl::OkStatus();
}

} // namespace

DocumentView Split::document(uint64_t index) const {
  auto shard = std::upper_bound(firstDocument.begin(), firstDocument.end(), index) - 1;
  return shards[static_cast<size_t>(shard - firstDocument.begin())].document(index - *shard);
}

StatusOr<Dataset> Dataset::open(const std::string &folder) {
  std::string path = concat(folder, "/", descriptionFile);
  auto parsedOr = parseDescription(path);
  if (parsedOr.status().code() == absl::StatusCode::kNotFound)
    return absl::NotFoundError(concat("'", folder, "' holds no dataset: expected ", descriptionFile,
                                      " in it; make one with `sluice data pack TEXT... -o ", folder, "`"));
  SLUICE_ASSIGN_OR_RETURN(Parsed parsed, std::move(parsedOr));

  Dataset dataset;
  dataset.described = parsed.description;
  std::string tokenizerPath = concat(folder, "/", tokenizerFile);
  SLUICE_ASSIGN_OR_RETURN(std::string model, readFile(tokenizerPath));
  // The hash comes first: the library is not robust against damaged models.
  if (std::string found = sha256Hex(model); found != parsed.tokenizerHash)
    return badInputError("'", tokenizerPath, "': expected the tokenizer with SHA-256 ", parsed.tokenizerHash,
                         " (dataset.json), found ", found, "; the file was replaced or damaged");
  SLUICE_ASSIGN_OR_RETURN(dataset.datasetTokenizer, Tokenizer::fromBytes(std::move(model), tokenizerPath));
  const Tokenizer &tokenizer = dataset.datasetTokenizer;
  if (static_cast<uint64_t>(tokenizer.vocabulary()) != parsed.vocabulary ||
      tokenizer.delimiter() != parsed.delimiter)
    return badInputError("'", path, "': expected the tokenizer's vocabulary ", tokenizer.vocabulary(),
                         " and delimiter ", tokenizer.delimiter(), ", found ", parsed.vocabulary, " and ",
                         parsed.delimiter);

  auto openSplit = [&](const char *name, const Parsed::ParsedSplit &from, Split &split) -> Status {
    split.splitName = name;
    for (const ShardEntry &entry : from.shards) {
      if (entry.file.empty() || entry.file.find('/') != std::string::npos)
        return badInputError("'", path, "': expected shard names without folders, found '", entry.file, "'");
      std::string shardPath = concat(folder, "/", entry.file);
      SLUICE_ASSIGN_OR_RETURN(Shard shard, Shard::open(shardPath));
      if (shard.tokenizerHash() != tokenizer.hash() || shard.vocabulary() != parsed.vocabulary ||
          shard.delimiter() != tokenizer.delimiter())
        return badInputError("'", shardPath, "': it was made with another tokenizer (SHA-256 ",
                             shard.tokenizerHash(), ") than the folder's (", tokenizer.hash(), ")");
      if (shard.contentHash() != entry.hash)
        return badInputError("'", shardPath, "': expected the shard with SHA-256 ", entry.hash,
                             " (dataset.json), found ", shard.contentHash(), "; the file was replaced");
      SLUICE_RETURN_IF_ERROR(checkLengths(shardPath, shard, tokenizer));
      split.firstDocument.push_back(split.sums.documents);
      split.sums.documents += shard.documents();
      split.sums.tokens += shard.tokens();
      for (uint64_t index = 0; index < shard.documents(); ++index) {
        split.sums.bytes += shard.document(index).bytes;
        split.sums.characters += shard.document(index).characters;
      }
      split.shards.push_back(std::move(shard));
    }
    split.sha256 = splitHash(from.shards);
    const SplitTotals &a = from.totals, &b = split.sums;
    if (a.documents != b.documents || a.tokens != b.tokens || a.bytes != b.bytes ||
        a.characters != b.characters || from.hash != split.sha256)
      return badInputError("'", path, "': the totals of the ", name,
                           " split do not match its shards: expected ", b.documents, " documents and ",
                           b.tokens, " tokens, found ", a.documents, " and ", a.tokens);
    if (b.documents == 0)
      return badInputError("'", path, "': expected documents in the ", name, " split, found none");
    return absl::OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(openSplit("train", parsed.train, dataset.trainSplit));
  SLUICE_RETURN_IF_ERROR(openSplit("validation", parsed.validation, dataset.validationSplit));
  dataset.sha256 = datasetHash(tokenizer.hash(), dataset.trainSplit.sha256, dataset.validationSplit.sha256);
  if (dataset.sha256 != parsed.hash)
    return badInputError("'", path, "': expected the dataset hash ", dataset.sha256, ", found ", parsed.hash);
  return dataset;
}

std::string Dataset::describe(const DatasetDescription &description, const Tokenizer &tokenizer,
                              const SplitTotals &train, const std::vector<ShardEntry> &trainShards,
                              const SplitTotals &validation,
                              const std::vector<ShardEntry> &validationShards) {
  Json json = {
      {"format", formatName},
      {"version", formatVersion},
      {"documents", description.documents},
      {"validation_fraction", description.validationFraction},
      {"tokenizer",
       {{"file", tokenizerFile},
        {"sha256", tokenizer.hash()},
        {"vocabulary", tokenizer.vocabulary()},
        {"delimiter", tokenizer.delimiter()}}},
      {"train", splitJson(train, trainShards)},
      {"validation", splitJson(validation, validationShards)},
      {"sha256", datasetHash(tokenizer.hash(), splitHash(trainShards), splitHash(validationShards))}};
  return json.dump(2) + "\n";
}

} // namespace sluice
