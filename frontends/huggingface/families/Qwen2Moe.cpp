#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Qwen2 with experts in some layers, each with a shared expert that a sigmoid weighs. Windows, if used, on
// the first, third, ... layer below max_window_layers.
Status readQwen2Moe(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 151936, defaults.width = 2048, defaults.layers = 24, defaults.heads = 16;
  defaults.kvHeads = 16, defaults.ffn = 5632, defaults.maxPositions = 32768;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("qkv_bias", true));
  config.attentionOutputBias = false;
  SLUICE_RETURN_IF_ERROR(readSoftmaxExperts(reader, config, {.experts = 60, .topK = 4, .ffn = 1408}));
  SLUICE_ASSIGN_OR_RETURN(config.moe->sharedFfn, reader.integer("shared_expert_intermediate_size", 5632));
  config.moe->sharedGate = config.moe->sharedFfn > 0;
  CheckpointNames &names = config.names;
  names.sharedGate = "mlp.shared_expert.gate_proj", names.sharedUp = "mlp.shared_expert.up_proj";
  names.sharedDown = "mlp.shared_expert.down_proj";

  SLUICE_ASSIGN_OR_RETURN(bool used, reader.boolean("use_sliding_window", false));
  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.integer("sliding_window", 4096));
  SLUICE_ASSIGN_OR_RETURN(int64_t windowed, reader.integer("max_window_layers", 28));
  SLUICE_RETURN_IF_ERROR(readWindows(reader, config, used ? window : 0, [=](int64_t layer) {
    return used && layer % 2 == 0 && layer < windowed;
  }));
  return readSparseLayers(reader, config);
}

} // namespace sluice
