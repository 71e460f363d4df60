#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

namespace {

CheckpointNames neoxNames() {
  CheckpointNames names;
  names.embedding = "gpt_neox.embed_in", names.layer = "gpt_neox.layers.{layer}.";
  names.finalNorm = "gpt_neox.final_layer_norm";
  names.qkv = "attention.query_key_value", names.out = "attention.dense";
  names.up = "mlp.dense_h_to_4h", names.down = "mlp.dense_4h_to_h";
  return names;
}

} // namespace

// Attention and MLP side by side, a part of each head rotary, layer norms, one product for queries, keys and
// values of each head.
Status readGptNeox(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 50432, defaults.width = 6144, defaults.layers = 44, defaults.heads = 64;
  defaults.ffn = 24576, defaults.normEpsilon = 1e-5, defaults.normEpsilonKey = "layer_norm_eps";
  defaults.activation = "gelu";
  if (reader.has("num_key_value_heads") || reader.has("head_dim"))
    return reader.error("keys 'num_key_value_heads' and 'head_dim' do not belong to gpt_neox");
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(
      readRotary(reader, config, {.share = 0.25, .thetaKey = "rotary_emb_base", .shareKey = "rotary_pct"}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", true));
  SLUICE_ASSIGN_OR_RETURN(config.parallelResidual, reader.boolean("use_parallel_residual", true));
  SLUICE_RETURN_IF_ERROR(reader.requireOff("hidden_dropout"));
  reader.ignore({"classifier_dropout"});
  config.norm = NormKind::Layer;
  config.qkvStorage = QkvStorage::JoinedByHead;
  config.mlpBias = true, config.gated = false;
  config.names = neoxNames();
  return absl::OkStatus();
}

} // namespace sluice
