#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

struct DeepseekDefaults {
  ShapeDefaults shape;
  int64_t experts = 64, moeFfn = 0, firstDense = 0, shared = 0;
  int64_t topK = -1; // -1: must be stated
  double scale = 1;
};

/// Latent attention: dimensions, and rotary positions on a part of each head whose scaling may also scale the
/// scores.
Status readLatent(ConfigReader &reader, DecoderConfig &config) {
  LatentAttention latent;
  SLUICE_ASSIGN_OR_RETURN(latent.queryRank, reader.nullableInteger("q_lora_rank", 1536));
  SLUICE_ASSIGN_OR_RETURN(latent.rank, reader.integer("kv_lora_rank", 512));
  SLUICE_ASSIGN_OR_RETURN(latent.plainDim, reader.integer("qk_nope_head_dim", 128));
  SLUICE_ASSIGN_OR_RETURN(latent.valueDim, reader.integer("v_head_dim", 128));
  SLUICE_ASSIGN_OR_RETURN(config.headDim, reader.integer("qk_rope_head_dim", 64));
  reader.ignore({"qk_head_dim"}); // the sum of the two; written by the library, not read
  SLUICE_ASSIGN_OR_RETURN(bool interleaved, reader.boolean("rope_interleave", true));
  if (!interleaved)
    return reader.wrong("rope_interleave", "true");
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  const double growth = config.rotary.scoreGrowth;
  config.attentionScale = growth * growth / std::sqrt(static_cast<double>(latent.plainDim + config.headDim));
  config.latent = latent;
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  return absl::OkStatus();
}

/// Experts, shared experts and the dense layers before them; groups and scores are the family's.
Status readExperts(ConfigReader &reader, DecoderConfig &config, const DeepseekDefaults &defaults) {
  MoeConfig moe;
  SLUICE_ASSIGN_OR_RETURN(moe.experts, reader.integer("n_routed_experts", defaults.experts));
  SLUICE_ASSIGN_OR_RETURN(moe.topK, reader.integer("num_experts_per_tok", defaults.topK));
  SLUICE_ASSIGN_OR_RETURN(moe.ffn, reader.integer("moe_intermediate_size", defaults.moeFfn));
  SLUICE_ASSIGN_OR_RETURN(int64_t shared, reader.integer("n_shared_experts", defaults.shared));
  moe.sharedFfn = shared * moe.ffn;
  SLUICE_ASSIGN_OR_RETURN(moe.scale, reader.number("routed_scaling_factor", defaults.scale));
  SLUICE_ASSIGN_OR_RETURN(int64_t dense, reader.integer("first_k_dense_replace", defaults.firstDense));
  SLUICE_ASSIGN_OR_RETURN(int64_t every, reader.integer("moe_layer_freq", 1));
  if (every != 1)
    return reader.wrong("moe_layer_freq", "1, as the library reads it");
  config.plan.assign(static_cast<size_t>(config.layers), {0, true});
  for (int64_t layer = 0; layer < std::min(dense, config.layers); ++layer)
    config.plan[static_cast<size_t>(layer)].experts = false;
  if (dense < config.layers)
    config.moe = moe;
  nameExpertsAsQwen(config.names);
  // How training balanced the experts and split them over machines; how weights are stored.
  reader.ignore({"aux_loss_alpha", "seq_aux", "ep_size", "quantization_config", "auto_map"});
  return absl::OkStatus();
}

} // namespace

// Latent attention; softmax scores, gates as they are times a factor; with group_limited_greedy, groups by
// their best expert.
Status readDeepseekV2(ConfigReader &reader, DecoderConfig &config) {
  DeepseekDefaults defaults;
  defaults.shape.vocabulary = 102400, defaults.moeFfn = 1407, defaults.shared = 2;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults.shape));
  SLUICE_RETURN_IF_ERROR(readLatent(reader, config));
  SLUICE_RETURN_IF_ERROR(readExperts(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(reader.requireOff("mlp_bias"));
  // The model's own code renormalises if this is set, the library never does.
  SLUICE_RETURN_IF_ERROR(reader.requireOff("norm_topk_prob"));
  SLUICE_ASSIGN_OR_RETURN(std::string method, reader.text("topk_method", "greedy"));
  SLUICE_ASSIGN_OR_RETURN(int64_t groups, reader.integer("n_group", 1));
  SLUICE_ASSIGN_OR_RETURN(int64_t kept, reader.integer("topk_group", 1));
  SLUICE_ASSIGN_OR_RETURN(std::string score, reader.text("scoring_func", "softmax"));
  if (score != "softmax")
    return reader.wrong("scoring_func", "softmax");
  if (method != "greedy" && method != "group_limited_greedy")
    return reader.wrong("topk_method", "greedy or group_limited_greedy");
  if (!config.moe)
    return absl::OkStatus();
  config.moe->renormalize = false;
  if (method == "group_limited_greedy")
    config.moe->groups = groups, config.moe->groupsKept = kept;
  return absl::OkStatus();
}

// Latent attention; sigmoid scores with a selection bias, groups by their two best experts, gates
// renormalised times a factor. Modules that predict further tokens are not part of the decoder.
Status readDeepseekV3(ConfigReader &reader, DecoderConfig &config) {
  DeepseekDefaults defaults;
  ShapeDefaults &shape = defaults.shape;
  shape.vocabulary = 129280, shape.width = 7168, shape.layers = 61, shape.heads = 128, shape.kvHeads = 128;
  shape.ffn = 18432, shape.maxPositions = 4096;
  defaults.experts = 256, defaults.topK = 8, defaults.moeFfn = 2048, defaults.shared = 1;
  defaults.firstDense = 3, defaults.scale = 2.5;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, shape));
  SLUICE_RETURN_IF_ERROR(readLatent(reader, config));
  SLUICE_RETURN_IF_ERROR(readExperts(reader, config, defaults));
  SLUICE_ASSIGN_OR_RETURN(int64_t groups, reader.integer("n_group", 8));
  SLUICE_ASSIGN_OR_RETURN(int64_t kept, reader.integer("topk_group", 4));
  SLUICE_ASSIGN_OR_RETURN(bool renormalize, reader.boolean("norm_topk_prob", true));
  SLUICE_ASSIGN_OR_RETURN(std::string method, reader.text("topk_method", "noaux_tc"));
  SLUICE_ASSIGN_OR_RETURN(std::string score, reader.text("scoring_func", "sigmoid"));
  if (method != "noaux_tc")
    return reader.wrong("topk_method", "noaux_tc");
  if (score != "sigmoid")
    return reader.wrong("scoring_func", "sigmoid");
  reader.ignore({"num_nextn_predict_layers", "num_mtp_layers"});
  if (!config.moe)
    return absl::OkStatus();
  MoeConfig &moe = *config.moe;
  moe.score = "sigmoid", moe.selectionBias = true;
  moe.renormalize = renormalize, moe.renormalizeEpsilon = renormalize ? 1e-20 : 0;
  moe.groups = groups, moe.groupsKept = kept, moe.groupScore = "sum_of_best_two";
  return absl::OkStatus();
}

} // namespace sluice
