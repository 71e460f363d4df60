#include "frontends/decoder/DecoderConfig.h"

namespace sluice {

std::vector<LayerConfig> layerPlan(const DecoderConfig &config) {
  if (!config.plan.empty())
    return config.plan;
  return std::vector<LayerConfig>(static_cast<size_t>(config.layers), {0, config.moe.has_value()});
}

namespace {

Status checkLatent(const DecoderConfig &config) {
  struct Positive {
    const char *key;
    int64_t value;
  };
  const LatentAttention &latent = *config.latent;
  for (const Positive &entry :
       {Positive{"kv_lora_rank", latent.rank}, Positive{"qk_nope_head_dim", latent.plainDim},
        Positive{"v_head_dim", latent.valueDim}})
    if (entry.value <= 0)
      return usageError(entry.key, ": expected a positive integer, found ", entry.value);
  if (config.kvHeads != config.heads)
    return usageError("num_key_value_heads: expected num_attention_heads = ", config.heads,
                      ", since all heads read one latent, found ", config.kvHeads);
  return absl::OkStatus();
}

Status checkMoe(const MoeConfig &moe) {
  if (moe.experts <= 0)
    return usageError("model.moe.experts: expected a positive integer, found ", moe.experts);
  if (moe.topK <= 0 || moe.topK > moe.experts)
    return usageError("model.moe.top_k: expected 1 to model.moe.experts = ", moe.experts, ", found ",
                      moe.topK, "; a token cannot choose more experts than there are");
  if (moe.ffn <= 0)
    return usageError("model.moe.ffn: expected a positive integer, found ", moe.ffn);
  if (moe.sharedFfn < 0)
    return usageError("model.moe.shared_ffn: expected 0 or a positive integer, found ", moe.sharedFfn);
  if (moe.sharedGate && moe.sharedFfn == 0)
    return usageError("model.moe.shared_gate: expected a shared expert (model.moe.shared_ffn), found none");
  if (moe.groups <= 0 || moe.experts % moe.groups != 0)
    return usageError("model.moe.groups: expected a divisor of model.moe.experts = ", moe.experts, ", found ",
                      moe.groups);
  if (moe.groupsKept <= 0 || moe.groupsKept > moe.groups)
    return usageError("model.moe.groups_kept: expected 1 to model.moe.groups = ", moe.groups, ", found ",
                      moe.groupsKept);
  if (moe.topK > moe.groupsKept * (moe.experts / moe.groups))
    return usageError("model.moe.top_k: expected at most the ", moe.groupsKept * (moe.experts / moe.groups),
                      " experts of the kept groups, found ", moe.topK);
  if (moe.groupScore != "maximum" && moe.groupScore != "sum_of_best_two")
    return usageError("model.moe.group_score: expected maximum or sum_of_best_two, found '", moe.groupScore,
                      "'");
  if (moe.groups > 1 && moe.groupScore == "sum_of_best_two" && moe.experts / moe.groups < 2)
    return usageError(
        "model.moe.groups: expected at least 2 experts a group for group_score sum_of_best_two, found ",
        moe.experts / moe.groups);
  if (moe.score != "softmax" && moe.score != "sigmoid")
    return usageError("model.moe.score: expected softmax or sigmoid, found '", moe.score, "'");
  if (moe.topK == 1 && moe.renormalize && !moe.allowConstantGate)
    return usageError(
        "model.moe.renormalize: with top_k = 1 a renormalised gate is always 1, so cross-entropy gives the "
        "router no gradient; set renormalize: false, or allow_constant_gate: true if that is the experiment");
  return absl::OkStatus();
}

} // namespace

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
  if (config.layers > maximumLayers)
    return usageError("model.layers: expected at most ", maximumLayers, ", found ", config.layers);
  if (config.heads % config.kvHeads != 0)
    return usageError("model.kv_heads: expected a divisor of model.heads = ", config.heads, ", found ",
                      config.kvHeads);
  if (config.latent)
    SLUICE_RETURN_IF_ERROR(checkLatent(config));
  const int64_t rotary = config.rotary.dim ? config.rotary.dim : config.headDim;
  if (config.rotary.present && (rotary % 2 != 0 || rotary > config.headDim))
    return usageError("model.head_dim: expected an even number (rotary positions turn pairs), found ",
                      rotary);
  if (!config.plan.empty() && static_cast<int64_t>(config.plan.size()) != config.layers)
    return usageError("model.layers: expected a plan of ", config.layers, " layers, found ",
                      config.plan.size());
  bool anyDense = false, anyExperts = false;
  for (const LayerConfig &layer : layerPlan(config))
    (layer.experts ? anyExperts : anyDense) = true;
  if (anyExperts != config.moe.has_value())
    return usageError("model.moe: expected experts in some layer exactly if the section is there");
  if (anyDense && config.ffn <= 0)
    return usageError("model.ffn: expected a positive integer, found ", config.ffn);
  if (!config.moe) {
    if (config.balanceWeight != 0 || config.routerZWeight != 0)
      return usageError("losses: a dense model has no router, so balance and router_z must be absent or 0");
    return absl::OkStatus();
  }
  return checkMoe(*config.moe);
}

} // namespace sluice
