// Cross-entropy of one token's logits, and its gradient.
#pragma once

#include "runtime/device/cpu/Kernel.h"

#include <atomic>

namespace sluice::cpu {

/// The targets of a batch and which of them count.
struct Targets {
  const int32_t *ids;
  int64_t ignored, vocabulary;
  /// The token's target, or -1 when it does not count; a target outside the vocabulary marks damage.
  int64_t target(int64_t token, std::atomic<bool> &damage) const;
};

Targets readTargets(Arguments &arguments, size_t input, int64_t tokens, int64_t vocabulary);

/// logsumexp(logits) - logits[target]; 0 for target -1.
double crossEntropyRow(const float *logits, int64_t vocabulary, int64_t target);
/// The same; writes factor * (softmax(logits) - onehot(target)) to gradient (zeros for target -1), which may
/// be logits. A loss that is not finite has a gradient of NaN, so that the update which reads it changes
/// nothing.
double crossEntropyGradientRow(const float *logits, int64_t vocabulary, int64_t target, float factor,
                               float *gradient);
/// loss = the sum of losses[0 .. tokens) in order.
void sumLosses(const double *losses, int64_t tokens, float *loss);

} // namespace sluice::cpu
