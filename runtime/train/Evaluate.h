// Validation loss: a token-weighted mean over a fixed set of windows, whatever the batch size.
#pragma once

#include "runtime/data/Windows.h"
#include "runtime/executor/Session.h"

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// Sums over an evaluation set. Cross-entropy only; auxiliary losses are no part of it.
struct Evaluation {
  double nats = 0;         // sum of the cross-entropy over counted targets
  double targets = 0;      // counted targets
  uint64_t bytes = 0;      // of text that the targets cover
  uint64_t characters = 0; // of text that the targets cover
  uint64_t windows = 0;

  double natsPerToken() const { return targets > 0 ? nats / targets : 0; }
  double bitsPerByte() const;
  double bitsPerCharacter() const;
};

/// Runs entry point "eval" over the first `windows` windows of the set (0: all), in order; the last batch is
/// filled up with ignored targets. Sums in float64. `stop`, if given, is asked between batches: true ends
/// with a Cancelled error. Errors: no entry point "eval"; a loss that is not finite (diverged).
StatusOr<Evaluation> evaluate(Session &session, const WindowStream &set, uint64_t windows = 0,
                              const std::function<bool()> &stop = {});

/// The batch and the sequence length that an entry point's input "tokens" [B, S] is bound to.
struct BatchShape {
  int64_t batch = 0, sequence = 0;
};
StatusOr<BatchShape> batchShape(const Session &session, std::string_view entry);

/// The model's vocabulary: the last size of entry point logits' output, or model_config's vocab_size.
StatusOr<int64_t> modelVocabulary(const ExecutableDescription &model);
/// Usage error unless the model's and the data's vocabularies are equal.
Status checkVocabulary(const ExecutableDescription &model, int64_t dataVocabulary, const std::string &data);

} // namespace sluice
