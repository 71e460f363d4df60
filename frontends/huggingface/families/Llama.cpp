#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

Status readLlama(ConfigReader &reader, DecoderConfig &config) {
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, {}));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
  SLUICE_ASSIGN_OR_RETURN(config.mlpBias, reader.boolean("mlp_bias", false));
  return absl::OkStatus();
}

} // namespace sluice
