#include "frontends/decoder/DecoderConfig.h"

namespace sluice {

Status checkDecoder(const DecoderConfig &config) {
  struct Positive {
    const char *key;
    int64_t value;
  };
  for (const Positive &entry :
       {Positive{"model.vocabulary", config.vocabulary}, Positive{"model.width", config.width},
        Positive{"model.layers", config.layers}, Positive{"model.heads", config.heads},
        Positive{"model.kv_heads", config.kvHeads}, Positive{"model.head_dim", config.headDim}})
    if (entry.value <= 0)
      return usageError(entry.key, ": expected a positive integer, found ", entry.value);
  if (config.heads % config.kvHeads != 0)
    return usageError("model.kv_heads: expected a divisor of model.heads = ", config.heads, ", found ",
                      config.kvHeads);
  if (config.headDim % 2 != 0)
    return usageError("model.head_dim: expected an even number (rotary positions turn pairs), found ",
                      config.headDim);
  if (!config.moe) {
    if (config.ffn <= 0)
      return usageError("model.ffn: expected a positive integer, found ", config.ffn);
    if (config.balanceWeight != 0 || config.routerZWeight != 0)
      return usageError("losses: a dense model has no router, so balance and router_z must be absent or 0");
    return absl::OkStatus();
  }
  const MoeConfig &moe = *config.moe;
  if (moe.experts <= 0)
    return usageError("model.moe.experts: expected a positive integer, found ", moe.experts);
  if (moe.topK <= 0 || moe.topK > moe.experts)
    return usageError("model.moe.top_k: expected 1 to model.moe.experts = ", moe.experts, ", found ",
                      moe.topK, "; a token cannot choose more experts than there are");
  if (moe.ffn <= 0)
    return usageError("model.moe.ffn: expected a positive integer, found ", moe.ffn);
  if (moe.score != "softmax" && moe.score != "sigmoid")
    return usageError("model.moe.score: expected softmax or sigmoid, found '", moe.score, "'");
  if (moe.topK == 1 && moe.renormalize && !moe.allowConstantGate)
    return usageError(
        "model.moe.renormalize: with top_k = 1 a renormalised gate is always 1, so cross-entropy gives the "
        "router no gradient; set renormalize: false, or allow_constant_gate: true if that is the experiment");
  return absl::OkStatus();
}

} // namespace sluice
