#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

// Sinks, a window on every other layer, biases everywhere, a softmax over the chosen experts (which is the
// renormalised one over all), a clamped activation.
Status readGptOss(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.vocabulary = 201088, defaults.width = 2880, defaults.layers = 36, defaults.heads = 64;
  defaults.kvHeads = 8, defaults.headDim = 64, defaults.ffn = 2880, defaults.maxPositions = 131072;
  defaults.normEpsilon = 1e-5;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(
      reader, config,
      {.theta = 150000, .section = R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1,
                                                    "truncate": false, "original_max_position_embeddings": 4096})"}));
  SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", true));
  config.sinks = true;

  MoeConfig moe;
  const llvm::StringRef expertsKey = reader.has("num_experts") ? "num_experts" : "num_local_experts";
  SLUICE_ASSIGN_OR_RETURN(moe.experts, reader.integer(expertsKey, 128));
  SLUICE_ASSIGN_OR_RETURN(moe.topK, reader.integer("num_experts_per_tok", 4));
  moe.ffn = config.ffn, moe.routerBias = true;
  ClampedGate gate;
  SLUICE_ASSIGN_OR_RETURN(gate.alpha, reader.number("swiglu_alpha", gate.alpha));
  SLUICE_ASSIGN_OR_RETURN(gate.limit, reader.number("swiglu_limit", gate.limit));
  if (!(gate.limit > 0))
    return reader.wrong("swiglu_limit", "a positive number");
  moe.clampedGate = gate;
  config.moe = moe;
  config.names.router = "mlp.router";
  // Older names of num_experts_per_tok and of the length before scaling, which the library does not read; how
  // weights are stored.
  reader.ignore({"experts_per_token", "initial_context_length", "quantization_config"});

  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.nullableInteger("sliding_window", 128));
  return readWindows(reader, config, window, [](int64_t layer) { return layer % 2 == 0; });
}

} // namespace sluice
