#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

#include <cmath>

namespace sluice {

// Norms around attention and MLP with 1 + gain, a scaled embedding, capped logits, a window on every other
// layer.
Status readGemma2(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 256000, defaults.width = 2304, defaults.layers = 26, defaults.heads = 8;
  defaults.kvHeads = 4, defaults.headDim = 256, defaults.ffn = 9216, defaults.maxPositions = 8192;
  defaults.tied = true, defaults.activationKey = "hidden_activation",
  defaults.activation = "gelu_pytorch_tanh";
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  reader.ignore({"hidden_act"}); // an older name beside hidden_activation, which the library does not read
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  SLUICE_RETURN_IF_ERROR(reader.requireOff("use_bidirectional_attention"));
  SLUICE_ASSIGN_OR_RETURN(double scalar, reader.number("query_pre_attn_scalar", 256));
  if (!(scalar > 0))
    return reader.wrong("query_pre_attn_scalar", "a positive number");
  config.attentionScale = 1 / std::sqrt(scalar);
  SLUICE_ASSIGN_OR_RETURN(config.attentionSoftcap, reader.nullableNumber("attn_logit_softcapping", 50));
  SLUICE_ASSIGN_OR_RETURN(config.logitSoftcap, reader.nullableNumber("final_logit_softcapping", 30));
  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.nullableInteger("sliding_window", 4096));
  SLUICE_RETURN_IF_ERROR(readWindows(reader, config, window, [](int64_t layer) { return layer % 2 == 0; }));
  config.norm = NormKind::RmsUnitOffset, config.postNorms = true;
  config.embeddingScale = std::sqrt(static_cast<double>(config.width));
  config.names.attentionPostNorm = "post_attention_layernorm";
  config.names.mlpNorm = "pre_feedforward_layernorm", config.names.mlpPostNorm = "post_feedforward_layernorm";
  return absl::OkStatus();
}

} // namespace sluice
