// A hand-made executable for tests: embedding -> gemm -> cross-entropy with AdamW, as the compiler would emit
// it.
#pragma once

#include "runtime/schema/ExecutableDescription.h"

#include <cstdint>
#include <string>

namespace sluice::testing {

/// Sizes of the tiny model and its training section.
struct TinyModel {
  int64_t batch = 2, sequence = 8, vocabulary = 64, width = 16;
  int64_t experts = 0; // > 1 adds a router whose choice is only watched: top-2, statistics and a balance loss
  std::string training = R"({"batch_tokens": 32})";
};

/// logits = embedding(tokens) head^T with parameters embed [V,d] and head [V,d], and the entry points init,
/// accumulate, apply, eval and logits of the compiler's contract.
ExecutableDescription tinyModel(const TinyModel &options = {});

} // namespace sluice::testing
