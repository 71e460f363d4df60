#include "frontends/huggingface/Family.h"
#include "frontends/huggingface/Rotary.h"

namespace sluice {

Status readMixtral(ConfigReader &reader, DecoderConfig &config) {
  ShapeDefaults defaults;
  defaults.kvHeads = 8, defaults.ffn = 14336, defaults.maxPositions = 131072, defaults.normEpsilon = 1e-5;
  SLUICE_RETURN_IF_ERROR(readShape(reader, config, defaults));
  SLUICE_RETURN_IF_ERROR(readRotary(reader, config, {.theta = 1e6}));
  MoeConfig moe;
  SLUICE_ASSIGN_OR_RETURN(moe.experts, reader.integer("num_local_experts", 8));
  SLUICE_ASSIGN_OR_RETURN(moe.topK, reader.integer("num_experts_per_tok", 2));
  moe.ffn = config.ffn;
  SLUICE_ASSIGN_OR_RETURN(moe.allowConstantGate, reader.boolean("allow_constant_gate", false));
  config.moe = moe;
  SLUICE_RETURN_IF_ERROR(reader.requireOff("router_jitter_noise"));
  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.nullableInteger("sliding_window", 0));
  config.plan.assign(static_cast<size_t>(config.layers), {window, true});
  return absl::OkStatus();
}

} // namespace sluice
