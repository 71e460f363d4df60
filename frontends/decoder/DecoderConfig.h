// The family of decoders that specs and Hugging Face configs describe: LLaMA-style dense and Mixtral-style
// MoE.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// Experts in place of every layer's MLP.
struct MoeConfig {
  int64_t experts = 0;
  int64_t topK = 0;
  int64_t ffn = 0;               // hidden width of one expert
  std::string score = "softmax"; // softmax or sigmoid
  bool renormalize = true;       // gates are divided by their sum over the chosen experts
  double renormalizeEpsilon = 0; // added to that sum
  double scale = 1;              // multiplies the gates
  bool allowConstantGate = false;
};

/// A decoder: pre-norm RMSNorm, rotary positions, grouped-query attention, SwiGLU.
struct DecoderConfig {
  std::string name = "model";
  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t ffn = 0; // hidden width of the dense MLP; unused with `moe`
  bool tied = true;
  bool attentionBias = false, mlpBias = false;
  double normEpsilon = 1e-5, ropeTheta = 10000, initStandardDeviation = 0.02;
  int64_t maxPositions = 0; // for exports; 0: the bound sequence length
  std::optional<MoeConfig> moe;
  double balanceWeight = 0, routerZWeight = 0; // weights of the auxiliary losses; 0: absent
};

/// Rules that no single key can check: heads divide, k <= experts, widths are positive and even where rotary
/// positions need it. The message names the keys of a spec.
Status checkDecoder(const DecoderConfig &config);

} // namespace sluice
