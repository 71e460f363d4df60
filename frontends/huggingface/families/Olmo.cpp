#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Llama with norms that have no parameters; queries, keys and values may be clipped.
Status readOlmo(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 50304, defaults.normEpsilon = 1e-5, defaults.normEpsilonKey = "";
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  SLUICE_ASSIGN_OR_RETURN(config.clipQkv, reader.number("clip_qkv", 0));
  if (config.clipQkv < 0)
    return reader.wrong("clip_qkv", "a positive number or null");
  config.norm = NormKind::LayerPlain;
  return absl::OkStatus();
}

} // namespace sluice
