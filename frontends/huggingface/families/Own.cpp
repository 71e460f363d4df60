#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {
namespace {

Status readExperts(ConfigReader &reader, DecoderConfig &config) {
  MoeConfig moe;
  SLUICE_ASSIGN_OR_RETURN(moe.experts, reader.integer("num_local_experts", -1));
  SLUICE_ASSIGN_OR_RETURN(moe.topK, reader.integer("num_experts_per_tok", -1));
  SLUICE_ASSIGN_OR_RETURN(moe.ffn, reader.integer("moe_intermediate_size", -1));
  SLUICE_ASSIGN_OR_RETURN(moe.score, reader.text("score", "softmax"));
  SLUICE_ASSIGN_OR_RETURN(moe.renormalize, reader.boolean("norm_topk_prob", true));
  SLUICE_ASSIGN_OR_RETURN(moe.renormalizeEpsilon, reader.number("norm_topk_epsilon", 0));
  SLUICE_ASSIGN_OR_RETURN(moe.scale, reader.number("routed_scaling_factor", 1));
  SLUICE_ASSIGN_OR_RETURN(moe.allowConstantGate, reader.boolean("allow_constant_gate", false));
  SLUICE_ASSIGN_OR_RETURN(moe.selectionBias, reader.boolean("selection_bias", false));
  SLUICE_ASSIGN_OR_RETURN(moe.groups, reader.integer("n_group", 1));
  SLUICE_ASSIGN_OR_RETURN(moe.groupsKept, reader.integer("topk_group", 1));
  SLUICE_ASSIGN_OR_RETURN(moe.groupScore, reader.text("group_score", "maximum"));
  SLUICE_ASSIGN_OR_RETURN(moe.sharedFfn, reader.integer("shared_expert_intermediate_size", 0));
  SLUICE_ASSIGN_OR_RETURN(moe.sharedGate, reader.boolean("shared_expert_gate", false));
  SLUICE_ASSIGN_OR_RETURN(std::vector<int64_t> layers, reader.integers("layers_with_experts"));
  config.plan.assign(static_cast<size_t>(config.layers), {});
  for (int64_t layer : layers) {
    if (layer < 0 || layer >= config.layers)
      return reader.wrong("layers_with_experts", "numbers of layers, from 0");
    config.plan[static_cast<size_t>(layer)].experts = true;
  }
  config.moe = moe;
  return absl::OkStatus();
}

} // namespace

// What `sluice export` writes for a spec that no family of the library computes; the inverse of
// frontends/decoder/ExportConfig.cpp.
Status readOwn(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  for (int64_t *value : {&defaults.vocabulary, &defaults.width, &defaults.layers, &defaults.heads,
                         &defaults.kvHeads, &defaults.ffn})
    *value = -1; // always stated
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  SLUICE_ASSIGN_OR_RETURN(config.mlpBias, reader.boolean("mlp_bias", false));
  SLUICE_ASSIGN_OR_RETURN(std::string positions, reader.text("positions", "rope"));
  SLUICE_ASSIGN_OR_RETURN(std::string norm, reader.text("qk_norm", "none"));
  if (positions != "rope" && positions != "alibi")
    return reader.wrong("positions", "rope or alibi");
  if (norm != "none" && norm != "head" && norm != "whole")
    return reader.wrong("qk_norm", "none, head or whole");
  config.alibi = positions == "alibi", config.rotary.present = !config.alibi;
  config.queryKeyNorm = norm == "head"    ? QueryKeyNorm::Head
                        : norm == "whole" ? QueryKeyNorm::Whole
                                          : QueryKeyNorm::None;
  SLUICE_RETURN_IF_ERROR(reader.requireOff("sliding_window"));
  return reader.has("num_local_experts") ? readExperts(reader, config) : absl::OkStatus();
}

} // namespace sluice
