#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Llama with a norm over each head of queries and keys.
Status readQwen3(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 151936, defaults.ffn = 22016, defaults.maxPositions = 32768, defaults.kvHeads = 32;
  defaults.headDim = 128;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  config.queryKeyNorm = QueryKeyNorm::Head;
  return readQwenWindows(reader, config);
}

} // namespace sluice
