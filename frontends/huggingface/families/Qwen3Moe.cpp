#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Qwen3 with experts in some layers; a window, if used, on every layer.
Status readQwen3Moe(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 151936, defaults.width = 2048, defaults.layers = 24, defaults.heads = 32;
  defaults.kvHeads = 4, defaults.ffn = 6144, defaults.maxPositions = 32768;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  config.queryKeyNorm = QueryKeyNorm::Head;
  // The library saves num_local_experts; published files say num_experts.
  SLUICE_RETURN_IF_ERROR(readSoftmaxExperts(
      reader, config,
      {.experts = 128,
       .topK = 8,
       .ffn = 768,
       .expertsKey = reader.has("num_local_experts") ? "num_local_experts" : "num_experts"}));
  SLUICE_ASSIGN_OR_RETURN(bool used, reader.boolean("use_sliding_window", false));
  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.nullableInteger("sliding_window", 4096));
  reader.ignore({"max_window_layers"}); // the library reads it for no layer
  config.plan.assign(static_cast<size_t>(config.layers), {used ? window : 0, true});
  return readSparseLayers(reader, config);
}

} // namespace sluice
