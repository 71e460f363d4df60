#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Llama with biases on queries, keys and values; windows only if use_sliding_window, from layer
// max_window_layers on.
Status readQwen2(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 151936, defaults.ffn = 22016, defaults.maxPositions = 32768, defaults.kvHeads = 32;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  config.attentionBias = true, config.attentionOutputBias = false;
  return readQwenWindows(reader, config);
}

} // namespace sluice
