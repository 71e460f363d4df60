#include "runtime/data/Pack.h"

#include "runtime/data/Utf8.h"
#include "runtime/support/Hash.h"
#include "runtime/support/ThreadPool.h"

#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unistd.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// 64-bit hash of a document; `purpose` separates its uses.
bool hashBelow(std::string_view text, uint64_t purpose, double fraction) {
  return static_cast<double>(xxhash64(text, purpose)) < std::ldexp(fraction, 64);
}

constexpr uint64_t splitPurpose = 0, samplePurpose = 1;

/// A folder that goes away with all it holds; nothing happens to one that was renamed.
class TemporaryFolder {
public:
  explicit TemporaryFolder(std::string path) : path(std::move(path)) { remove(); }
  ~TemporaryFolder() { remove(); }
  const std::string path;

private:
  void remove() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

Status systemFailure(std::string_view what, const std::string &path, const std::error_code &error) {
  return failure("cannot ", what, " '", path, "': ", error.message());
}

/// An existing output may give way only if it is empty, or a dataset and `replace` was asked for.
Status checkOutput(const PackOptions &options) {
  if (options.output.empty())
    return usageError("data pack: expected an output folder (-o DATA), found none");
  std::error_code error;
  fs::file_status status = fs::status(options.output, error);
  if (!fs::exists(status))
    return absl::OkStatus();
  if (!fs::is_directory(status))
    return usageError("data pack: expected a folder at '", options.output,
                      "', found a file; choose another -o");
  if (fs::is_empty(options.output, error))
    return absl::OkStatus();
  if (!fs::exists(fs::path(options.output) / Dataset::descriptionFile, error))
    return usageError("data pack: '", options.output, "' is a folder with other content; choose another -o");
  if (!options.replace)
    return usageError("data pack: '", options.output,
                      "' already holds a dataset; remove it or choose another -o");
  return absl::OkStatus();
}

/// Puts `from` in the place of `to`, atomically also when `to` exists.
Status publish(const std::string &from, const std::string &to) {
  int result = ::rename(from.c_str(), to.c_str()); // also over an empty folder
  if (result != 0 && (errno == ENOTEMPTY || errno == EEXIST))
    result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE);
  if (result != 0)
    return systemFailure("rename to", to, {errno, std::generic_category()});
  return syncFolder(fs::absolute(to).parent_path().string());
}

/// The shards of one split while they are written.
class SplitWriter {
public:
  SplitWriter(std::string folder, std::string name, const Tokenizer &tokenizer, uint64_t shardTokens)
      : folder(std::move(folder)), name(std::move(name)), shardTokens(shardTokens),
        writer(static_cast<uint64_t>(tokenizer.vocabulary()), tokenizer.delimiter(), tokenizer.hash()) {}

  Status add(std::string_view text, const std::vector<int32_t> &ids) {
    uint64_t characters = utf8Characters(text);
    writer.add(ids.data(), ids.size(), text.size(), characters);
    totals.documents += 1;
    totals.tokens += ids.size();
    totals.bytes += text.size();
    totals.characters += characters;
    return writer.tokens() >= shardTokens ? flush() : absl::OkStatus();
  }

  Status flush() {
    if (writer.documents() == 0)
      return absl::OkStatus();
    std::string file = absl::StrFormat("%s-%05d.shard", name, shards.size());
    SLUICE_ASSIGN_OR_RETURN(std::string hash, writer.write(concat(folder, "/", file)));
    shards.push_back({file, hash});
    return absl::OkStatus();
  }

  SplitTotals totals;
  std::vector<ShardEntry> shards;

private:
  std::string folder, name;
  uint64_t shardTokens;
  ShardWriter writer;
};

/// One pack: its inputs and options, and the steps in order.
class Packer {
public:
  Packer(const PackOptions &options, TextInputs inputs) : options(options), inputs(std::move(inputs)) {}

  StatusOr<PackSummary> run() {
    SLUICE_RETURN_IF_ERROR(survey());
    SLUICE_ASSIGN_OR_RETURN(Tokenizer tokenizer, makeTokenizer());
    std::string output = options.output;
    while (output.size() > 1 && output.ends_with('/'))
      output.pop_back();
    std::error_code error;
    if (fs::path parent = fs::path(output).parent_path(); !parent.empty())
      if (fs::create_directories(parent, error); error)
        return systemFailure("create folder", parent.string(), error);
    TemporaryFolder temporary(concat(output, ".tmp-", ::getpid()));
    if (fs::create_directory(temporary.path, error); error)
      return systemFailure("create folder", temporary.path, error);

    SplitWriter train(temporary.path, "train", tokenizer, options.shardTokens);
    SplitWriter validation(temporary.path, "validation", tokenizer, options.shardTokens);
    SLUICE_RETURN_IF_ERROR(encode(tokenizer, train, validation));
    SLUICE_RETURN_IF_ERROR(writeFile(concat(temporary.path, "/", Dataset::tokenizerFile),
                                     tokenizer.modelBytes(), /*sync=*/true));
    DatasetDescription description{options.documents.name(), options.validationFraction};
    SLUICE_RETURN_IF_ERROR(writeFile(concat(temporary.path, "/", Dataset::descriptionFile),
                                     Dataset::describe(description, tokenizer, train.totals, train.shards,
                                                       validation.totals, validation.shards),
                                     /*sync=*/true));
    SLUICE_RETURN_IF_ERROR(syncFolder(temporary.path));
    report("checking", 0, 0);
    SLUICE_ASSIGN_OR_RETURN(Dataset dataset, Dataset::open(temporary.path));
    SLUICE_RETURN_IF_ERROR(publish(temporary.path, output));
    return PackSummary{train.totals,           validation.totals, emptyDocuments,
                       tokenizer.vocabulary(), tokenizer.hash(),  dataset.hash()};
  }

private:
  void report(const char *stage, uint64_t done, uint64_t total) const {
    if (options.progress)
      options.progress({stage, done, total});
  }

  bool isValidation(std::string_view text) const {
    return isValidationDocument(text, options.validationFraction);
  }

  /// Counts the documents, and refuses an empty split.
  Status survey() {
    report("reading", 0, inputs.bytes());
    uint64_t trainDocuments = 0, validationDocuments = 0;
    SLUICE_ASSIGN_OR_RETURN(emptyDocuments,
                            inputs.forEachDocument(options.documents, [&](std::string_view text) {
                              totalBytes += text.size();
                              if (isValidation(text)) {
                                ++validationDocuments;
                              } else {
                                ++trainDocuments;
                                trainBytes += text.size();
                              }
                              return absl::OkStatus();
                            }));
    if (trainDocuments > 0 && validationDocuments > 0)
      return absl::OkStatus();
    uint64_t documents = trainDocuments + validationDocuments;
    if (documents == 0)
      return usageError("data pack: expected documents (--documents ", options.documents.name(),
                        "), found none in ", inputs.bytes(), " bytes of text (", emptyDocuments,
                        " empty); check the input files");
    return usageError(
        "data pack: the ", trainDocuments == 0 ? "train" : "validation", " split is empty: all ", documents,
        " documents (--documents ", options.documents.name(),
        ") fall on the other side at a validation fraction of ", options.validationFraction,
        "; use smaller documents (--documents paragraph or line), more text, or another fraction");
  }

  StatusOr<Tokenizer> makeTokenizer() const {
    if (!options.tokenizerFile.empty())
      return Tokenizer::load(options.tokenizerFile);
    report("training the tokenizer", 0, 0);
    double share = static_cast<double>(options.tokenizerTrainingBytes) / static_cast<double>(trainBytes);
    Status walked = absl::OkStatus();
    auto tokenizer = Tokenizer::train(
        [&](const Tokenizer::TextVisitor &visit) {
          walked.Update(inputs
                            .forEachDocument(options.documents,
                                             [&](std::string_view text) {
                                               if (!isValidation(text) &&
                                                   (share >= 1 || hashBelow(text, samplePurpose, share)))
                                                 visit(text);
                                               return absl::OkStatus();
                                             })
                            .status());
        },
        options.vocabulary);
    SLUICE_RETURN_IF_ERROR(walked);
    return tokenizer;
  }

  /// Encodes documents in batches on the pool; they are stored in the order of the input.
  Status encode(const Tokenizer &tokenizer, SplitWriter &train, SplitWriter &validation) const {
    constexpr uint64_t batchBytes = 4 << 20;
    ThreadPool pool(std::max(1, options.threads));
    std::vector<std::string> texts;
    uint64_t pending = 0, done = 0;
    auto flush = [&]() -> Status {
      std::vector<std::vector<int32_t>> ids(texts.size());
      std::vector<Status> status(texts.size());
      pool.forEach(static_cast<int64_t>(texts.size()), [&](int64_t tile, int) {
        size_t i = static_cast<size_t>(tile);
        status[i] = tokenizer.encode(texts[i], ids[i]);
      });
      for (size_t i = 0; i < texts.size(); ++i) {
        SLUICE_RETURN_IF_ERROR(status[i]);
        SLUICE_RETURN_IF_ERROR((isValidation(texts[i]) ? validation : train).add(texts[i], ids[i]));
      }
      done += pending;
      pending = 0;
      texts.clear();
      report("encoding", done, totalBytes);
      return absl::OkStatus();
    };
    SLUICE_RETURN_IF_ERROR(inputs
                               .forEachDocument(options.documents,
                                                [&](std::string_view text) {
                                                  texts.emplace_back(text);
                                                  pending += text.size();
                                                  return pending >= batchBytes ? flush() : absl::OkStatus();
                                                })
                               .status());
    SLUICE_RETURN_IF_ERROR(flush());
    SLUICE_RETURN_IF_ERROR(train.flush());
    return validation.flush();
  }

  const PackOptions &options;
  TextInputs inputs;
  uint64_t emptyDocuments = 0, totalBytes = 0, trainBytes = 0;
};

} // namespace

bool isValidationDocument(std::string_view text, double fraction) {
  return hashBelow(text, splitPurpose, fraction);
}

StatusOr<PackSummary> packDataset(const PackOptions &options) {
  if (!(options.validationFraction > 0 && options.validationFraction < 1))
    return usageError("data pack: expected a validation fraction between 0 and 1, found ",
                      options.validationFraction, "; the default is 0.05");
  SLUICE_RETURN_IF_ERROR(checkOutput(options));
  SLUICE_ASSIGN_OR_RETURN(TextInputs inputs, TextInputs::open(options.inputs));
  return Packer(options, std::move(inputs)).run();
}

} // namespace sluice
