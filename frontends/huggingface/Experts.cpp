// What the families with experts share.
#include "frontends/huggingface/Family.h"

namespace sluice {

void nameExpertsAsQwen(CheckpointNames &names) {
  names.router = "mlp.gate";
  names.expertGate = "mlp.experts.{expert}.gate_proj", names.expertUp = "mlp.experts.{expert}.up_proj";
  names.expertDown = "mlp.experts.{expert}.down_proj";
}

Status readSoftmaxExperts(ConfigReader &reader, DecoderConfig &config, const ExpertDefaults &defaults) {
  MoeConfig moe;
  SLUICE_ASSIGN_OR_RETURN(moe.experts, reader.integer(defaults.expertsKey, defaults.experts));
  SLUICE_ASSIGN_OR_RETURN(moe.topK, reader.integer("num_experts_per_tok", defaults.topK));
  moe.ffn = config.ffn;
  if (!defaults.ffnKey.empty()) {
    SLUICE_ASSIGN_OR_RETURN(moe.ffn, reader.integer(defaults.ffnKey, defaults.ffn));
  }
  SLUICE_ASSIGN_OR_RETURN(moe.renormalize, reader.boolean("norm_topk_prob", false));
  config.moe = moe;
  nameExpertsAsQwen(config.names);
  return absl::OkStatus();
}

Status readSparseLayers(ConfigReader &reader, DecoderConfig &config) {
  SLUICE_ASSIGN_OR_RETURN(int64_t step, reader.integer("decoder_sparse_step", 1));
  if (step == 0)
    return reader.wrong("decoder_sparse_step", "a positive integer");
  SLUICE_ASSIGN_OR_RETURN(std::vector<int64_t> dense, reader.integers("mlp_only_layers"));
  bool any = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool named = std::find(dense.begin(), dense.end(), layer) != dense.end();
    any |= config.plan[static_cast<size_t>(layer)].experts = !named && (layer + 1) % step == 0;
  }
  if (!any)
    config.moe.reset();
  return absl::OkStatus();
}

} // namespace sluice
