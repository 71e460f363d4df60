// Packs texts into a dataset folder: documents, split by their hash, tokenizer, shards.
#pragma once

#include "runtime/data/Dataset.h"
#include "runtime/data/Documents.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct PackProgress {
  const char *stage;        // "reading", "training the tokenizer", "encoding", "checking"
  uint64_t done = 0, total; // bytes of text; total 0 where there is no measure
};

struct PackOptions {
  std::vector<std::string> inputs; // text files; "-" is standard input
  DocumentRule documents;
  int vocabulary = 4096;     // trained on the training documents only
  std::string tokenizerFile; // used instead of training when not empty
  double validationFraction = 0.05;
  std::string output;   // folder to make
  bool replace = false; // a dataset that is already there gives way, in one step
  int threads = 1;      // for encoding; the result does not depend on it
  // A larger training split is sampled by document hash for the tokenizer's training.
  uint64_t tokenizerTrainingBytes = uint64_t{256} << 20;
  uint64_t shardTokens = uint64_t{64} << 20; // a shard is closed at this many tokens; a document is never cut
  std::function<void(const PackProgress &)> progress;
};

struct PackSummary {
  SplitTotals train, validation;
  uint64_t emptyDocuments = 0; // left out: nothing but whitespace
  int vocabulary = 0;
  std::string tokenizerHash, datasetHash;
};

/// True when the document belongs to the validation split: xxHash3 of its bytes, as a fraction of 2^64, is
/// below `fraction`. It depends on the text alone, so equal documents fall on the same side, and adding
/// documents or raising the fraction never moves a validation document to training.
bool isValidationDocument(std::string_view text, double fraction);

/// Writes the dataset to a temporary folder beside `output`, opens and checks it, and renames it.
/// Errors: usage (an empty split, with the number of documents; a vocabulary that does not fit; an existing
/// output), bad input (UTF-8, JSON lines, tokenizer), failure (disk).
StatusOr<PackSummary> packDataset(const PackOptions &options);

} // namespace sluice
