#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

namespace {

/// An integer under the family's own name or the library's common one.
StatusOr<int64_t> either(ConfigReader &reader, llvm::StringRef own, llvm::StringRef common,
                         int64_t fallback) {
  SLUICE_ASSIGN_OR_RETURN(int64_t value, reader.integer(common, fallback));
  return reader.integer(own, value);
}

CheckpointNames gpt2Names() {
  CheckpointNames names;
  names.embedding = "transformer.wte", names.positions = "transformer.wpe";
  names.layer = "transformer.h.{layer}.", names.finalNorm = "transformer.ln_f";
  names.attentionNorm = "ln_1", names.qkv = "attn.c_attn", names.out = "attn.c_proj";
  names.mlpNorm = "ln_2", names.up = "mlp.c_fc", names.down = "mlp.c_proj";
  return names;
}

} // namespace

// Learned positions, layer norms, biases everywhere, weights stored [in, out], one product for queries, keys
// and values.
Status readGpt2(ConfigReader &reader, DecoderConfig &config) {
  SLUICE_ASSIGN_OR_RETURN(config.vocabulary, reader.integer("vocab_size", 50257));
  SLUICE_ASSIGN_OR_RETURN(config.width, either(reader, "n_embd", "hidden_size", 768));
  SLUICE_ASSIGN_OR_RETURN(config.layers, either(reader, "n_layer", "num_hidden_layers", 12));
  SLUICE_ASSIGN_OR_RETURN(config.heads, either(reader, "n_head", "num_attention_heads", 12));
  SLUICE_ASSIGN_OR_RETURN(config.learnedPositions,
                          either(reader, "n_positions", "max_position_embeddings", 1024));
  config.kvHeads = config.heads, config.maxPositions = config.learnedPositions;
  if (config.heads == 0 || config.width % config.heads != 0)
    return reader.error(
        concat("key 'n_head': expected a divisor of n_embd = ", config.width, ", found ", config.heads));
  config.headDim = config.width / config.heads;
  SLUICE_ASSIGN_OR_RETURN(config.ffn, reader.integer("n_inner", 4 * config.width));
  SLUICE_ASSIGN_OR_RETURN(config.activation, readActivation(reader, "activation_function", "gelu_new"));
  SLUICE_ASSIGN_OR_RETURN(config.normEpsilon, reader.number("layer_norm_epsilon", 1e-5));
  SLUICE_ASSIGN_OR_RETURN(config.initStandardDeviation, reader.number("initializer_range", 0.02));
  SLUICE_ASSIGN_OR_RETURN(config.tied, reader.boolean("tie_word_embeddings", true));
  SLUICE_ASSIGN_OR_RETURN(bool scaled, reader.boolean("scale_attn_weights", true));
  if (!scaled)
    config.attentionScale = 1;
  SLUICE_RETURN_IF_ERROR(reader.requireOff("scale_attn_by_inverse_layer_idx"));
  SLUICE_RETURN_IF_ERROR(reader.requireOff("add_cross_attention"));
  for (const char *key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    SLUICE_ASSIGN_OR_RETURN(double dropout, reader.number(key, 0.1));
    if (dropout != 0)
      config.warnings.push_back(concat("key '", key, "' = ", dropout, ": there is no dropout here"));
  }
  // Heads of other tasks; an order of operations that only matters below float32; the old name of
  // n_positions.
  reader.ignore({"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                 "summary_first_dropout", "reorder_and_upcast_attn", "n_ctx"});
  config.rotary.present = false;
  config.norm = NormKind::Layer;
  config.qkvStorage = QkvStorage::Joined, config.transposedWeights = true;
  config.attentionBias = config.mlpBias = true, config.gated = false;
  config.names = gpt2Names();
  return absl::OkStatus();
}

} // namespace sluice
