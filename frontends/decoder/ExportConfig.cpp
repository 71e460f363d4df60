#include "frontends/decoder/BuildDecoder.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {
namespace {

/// Whether the library's llama (without experts) or mixtral (with them) computes the same: a file must never
/// load elsewhere and compute something else.
bool isPlainFamily(const DecoderConfig &config) {
  const bool experts = config.moe.has_value();
  for (const LayerConfig &layer : layerPlan(config))
    if (layer != LayerConfig{0, experts})
      return false;
  if (config.alibi || config.queryKeyNorm != QueryKeyNorm::None)
    return false;
  if (!experts)
    return true;
  const MoeConfig &moe = *config.moe;
  return moe.score == "softmax" && moe.renormalize && moe.scale == 1 && moe.renormalizeEpsilon == 0 &&
         !moe.selectionBias && moe.groups == 1 && moe.sharedFfn == 0 && !config.attentionBias &&
         !config.mlpBias;
}

/// What specs can say and those two families cannot, for a family of our own.
void addOwnSettings(const DecoderConfig &config, llvm::json::Object &object) {
  object["positions"] = config.alibi ? "alibi" : "rope";
  object["qk_norm"] = config.queryKeyNorm == QueryKeyNorm::None   ? "none"
                      : config.queryKeyNorm == QueryKeyNorm::Head ? "head"
                                                                  : "whole";
  object["attention_bias"] = config.attentionBias;
  object["mlp_bias"] = config.mlpBias;
  object["intermediate_size"] = config.ffn;
  if (!config.moe)
    return;
  const MoeConfig &moe = *config.moe;
  llvm::json::Array experts;
  for (auto [number, layer] : llvm::enumerate(layerPlan(config)))
    if (layer.experts)
      experts.push_back(static_cast<int64_t>(number));
  object["layers_with_experts"] = std::move(experts);
  object["moe_intermediate_size"] = moe.ffn;
  object["score"] = moe.score;
  object["norm_topk_prob"] = moe.renormalize;
  object["norm_topk_epsilon"] = moe.renormalizeEpsilon;
  object["routed_scaling_factor"] = moe.scale;
  object["selection_bias"] = moe.selectionBias;
  object["n_group"] = moe.groups;
  object["topk_group"] = moe.groupsKept;
  object["group_score"] = moe.groupScore;
  object["shared_expert_intermediate_size"] = moe.sharedFfn;
  object["shared_expert_gate"] = moe.sharedGate;
}

} // namespace

llvm::json::Object huggingFaceConfig(const DecoderConfig &config) {
  if (!config.huggingFace.empty()) {
    llvm::json::Object original = *llvm::cantFail(llvm::json::parse(config.huggingFace)).getAsObject();
    for (const char *key : {"dtype", "torch_dtype"}) // what weights are written as
      original[key] = "float32";
    return original;
  }
  bool mixtral = config.moe.has_value();
  const bool foreign = !isPlainFamily(config);
  llvm::json::Object object{
      {"architectures", llvm::json::Array{foreign   ? "SluiceForCausalLM"
                                          : mixtral ? "MixtralForCausalLM"
                                                    : "LlamaForCausalLM"}},
      {"model_type", foreign   ? "sluice"
                     : mixtral ? "mixtral"
                               : "llama"},
      {"vocab_size", config.vocabulary},
      {"hidden_size", config.width},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kvHeads},
      {"head_dim", config.headDim},
      {"intermediate_size", mixtral ? config.moe->ffn : config.ffn},
      {"hidden_act", "silu"},
      {"rms_norm_eps", config.normEpsilon},
      {"rope_theta", config.ropeTheta},
      {"rope_parameters", llvm::json::Object{{"rope_theta", config.ropeTheta}, {"rope_type", "default"}}},
      {"initializer_range", config.initStandardDeviation},
      {"tie_word_embeddings", config.tied},
      {"max_position_embeddings", config.maxPositions},
      {"torch_dtype", "float32"},
      {"dtype", "float32"},
  };
  if (mixtral) {
    object["num_local_experts"] = config.moe->experts;
    object["num_experts_per_tok"] = config.moe->topK;
    object["router_aux_loss_coef"] = config.balanceWeight;
    object["output_router_logits"] = false;
    object["sliding_window"] = nullptr;
    if (config.moe->allowConstantGate) // a key of ours; the library computes the same without it
      object["allow_constant_gate"] = true;
  }
  if (!mixtral) {
    object["attention_bias"] = config.attentionBias;
    object["mlp_bias"] = config.mlpBias;
  }
  if (foreign)
    addOwnSettings(config, object);
  return object;
}

} // namespace sluice
