#include "frontends/decoder/GraphParts.h"

using namespace mlir;

namespace sluice {

Value buildFeedForward(GraphParts &parts, Value x, StringRef role, int64_t ffn, const MlpNames &names) {
  const DecoderConfig &config = parts.config;
  auto up = [&](StringRef name, StringRef weight, const std::string &checkpoint) {
    return parts.linear(name, weight, role, x, config.width, ffn, checkpoint, config.mlpBias);
  };
  Value activated;
  if (!config.gated) {
    activated = ActivationOp::create(parts.builder, parts.at("activated"), up("up", "w_up", names.up),
                                     parts.builder.getStringAttr(config.activation));
  } else {
    Value g = up("gate", "w_gate", names.gate), u = up("up", "w_up", names.up);
    if (config.activation == "silu") {
      activated = SwiGluOp::create(parts.builder, parts.at("activated"), g, u);
    } else {
      g = ActivationOp::create(parts.builder, parts.at("gate_activated"), g,
                               parts.builder.getStringAttr(config.activation));
      activated = MultiplyOp::create(parts.builder, parts.at("activated"), g, u);
    }
  }
  return parts.linear("down", "w_down", role, activated, ffn, config.width, names.down, config.mlpBias);
}

Value buildMlp(GraphParts &parts, Value x) {
  const DecoderConfig &config = parts.config;
  const CheckpointNames &names = config.names;
  Value n = parts.norm("normalized", x, "norm", config.width, names.layer + names.mlpNorm);
  Value out = buildFeedForward(parts, n, "mlp", config.ffn,
                               {names.layer + names.gate, names.layer + names.up, names.layer + names.down});
  if (config.postNorms)
    out = parts.norm("out_normalized", out, "post_norm", config.width, names.layer + names.mlpPostNorm);
  return out;
}

} // namespace sluice
