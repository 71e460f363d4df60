// Model specs: YAML files that describe a decoder and how to train it.
#pragma once

#include "frontends/decoder/DecoderConfig.h"
#include "frontends/spec/SpecTree.h"

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace sluice {

struct Spec {
  DecoderConfig decoder;
  llvm::json::Object training; // the training section of docs/training.md
  int64_t batch = 8, sequence = 256;
  bool vocabularyFromData = false; // training takes the vocabulary from the data's tokenizer
  std::string resolved;            // every written key on a line, sorted: what a run folder keeps
};

/// Reads a spec and applies `--set` assignments. `vocabulary`, if positive, replaces model.vocabulary where
/// the spec says vocabulary_from: data. Errors (usage): file:line, what was expected, what was found, the
/// nearest known name.
StatusOr<Spec> readSpec(const std::string &path, const std::vector<std::string> &assignments,
                        int64_t vocabulary = 0);

} // namespace sluice
