#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Llama with a window on every layer; null means none.
Status readMistral(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.kvHeads = 8, defaults.ffn = 14336, defaults.maxPositions = 131072;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.nullableInteger("sliding_window", 4096));
  config.plan.assign(static_cast<size_t>(config.layers), {window, false});
  return absl::OkStatus();
}

} // namespace sluice
