// Text from a model: one token after another, each drawn from the distribution after the last S tokens.
#pragma once

#include "runtime/data/Tokenizer.h"
#include "runtime/executor/Session.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct GenerateOptions {
  std::string prompt;     // empty: the delimiter, so that a document begins
  int64_t tokens = 200;   // how many to draw
  double temperature = 1; // 0: always the likeliest, ties to the lower id
  uint64_t seed = 1;      // draw i is Philox(seed, "generate", element i)
};

/// The index of the draw `uniform` in [0, 1) from softmax(logits / temperature), in float64 and index order;
/// for temperature 0 the largest logit's, ties to the lower index. Errors (diverged): a logit that is not a
/// number.
StatusOr<int32_t> sampleToken(const std::vector<float> &logits, double temperature, double uniform);

/// Text as it goes on after the prompt, which is not repeated; a delimiter becomes a newline. The context is
/// the last S tokens. `emit`, if given, gets the text piece by piece. Errors (usage): a negative temperature,
/// a vocabulary other than the tokenizer's, no entry point "logits"; the tokenizer's.
StatusOr<std::string> generate(Session &session, const Tokenizer &tokenizer, const GenerateOptions &options,
                               const std::function<void(std::string_view)> &emit = {});

} // namespace sluice
