#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Experts in every layer, gates as they are; norms over the whole query and key projections.
Status readOlmoe(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 50304, defaults.width = 2048, defaults.layers = 16, defaults.heads = 16;
  defaults.ffn = 2048, defaults.maxPositions = 4096, defaults.normEpsilon = 1e-5;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  SLUICE_ASSIGN_OR_RETURN(config.clipQkv, reader.nullableNumber("clip_qkv", 0));
  config.queryKeyNorm = QueryKeyNorm::Whole;
  SLUICE_RETURN_IF_ERROR(readSoftmaxExperts(reader, config, {.experts = 64, .topK = 8, .ffnKey = ""}));
  return absl::OkStatus();
}

} // namespace sluice
