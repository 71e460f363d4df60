#include "frontends/decoder/StackedExperts.h"

using namespace mlir;

namespace sluice {
namespace {

/// A parameter of all experts, under one name in checkpoints; the whole name below the layer is `tensor`.
Value stacked(GraphParts &parts, StringRef name, ArrayRef<int64_t> shape, const std::string &tensor) {
  const MoeConfig &moe = *parts.config.moe;
  const bool bias = shape.size() == 2;
  const CheckpointNames &names = parts.config.names;
  Value value = parts.param(name, bias ? "bias" : "expert", shape, bias ? parts.fill(0) : parts.normal(),
                            names.layer + names.stackedExperts + tensor);
  auto param = value.getDefiningOp<ParamOp>();
  param->setAttr("sluice.experts", parts.integer(moe.experts));
  param->setAttr("sluice.active", parts.integer(moe.topK));
  param.setDecayAttr(parts.builder.getBoolAttr(!bias));
  return value;
}

Value activate(GraphParts &parts, Value gate, Value up) {
  const ClampedGate &form = *parts.config.moe->clampedGate;
  return buildMap(parts.builder, parts.at("activated"), {gate, up},
                  [&](OpBuilder &inner, Location loc, ValueRange s) -> Value {
                    Scalars scalars(inner, loc);
                    Type type = s[0].getType();
                    Value most = scalars.constant(form.limit, type),
                          least = scalars.constant(-form.limit, type);
                    auto below = [&](Value v) { return scalars.select(scalars.greater(v, most), most, v); };
                    Value g = below(s[0]), u = below(s[1]);
                    u = scalars.select(scalars.greater(least, u), least, u);
                    Value glu = scalars.multiply(g, scalars.sigmoid(scalars.multiply(g, form.alpha)));
                    return scalars.multiply(scalars.add(u, scalars.constant(1.0, type)), glu);
                  });
}

} // namespace

Value buildStackedExperts(GraphParts &parts, Value rows, Value routing) {
  const MoeConfig &moe = *parts.config.moe;
  const int64_t experts = moe.experts, width = parts.config.width, ffn = moe.ffn;
  OpBuilder &builder = parts.builder;
  auto product = [&](StringRef name, Value x, Value weight, Value bias) -> Value {
    return GroupedLinearOp::create(builder, parts.at(name), x, weight, routing, bias, Value(),
                                   /*transpose_weight=*/true);
  };
  Value gateUp = stacked(parts, "w_gate_up", {experts, width, 2 * ffn}, "gate_up_proj");
  Value both = product("gate_up", rows, gateUp,
                       stacked(parts, "w_gate_up_bias", {experts, 2 * ffn}, "gate_up_proj_bias"));
  both = ReshapeOp::create(builder, parts.at("pairs"), both, builder.getDenseI64ArrayAttr({-2, ffn, 2}));
  auto half = [&](StringRef name, int64_t which) -> Value {
    return ReshapeOp::create(builder, parts.at(name), parts.slice(name, both, which, 1),
                             builder.getDenseI64ArrayAttr({-2, ffn}));
  };
  Value act = activate(parts, half("gate", 0), half("up", 1));
  Value down = stacked(parts, "w_down", {experts, ffn, width}, "down_proj");
  return product("down", act, down, stacked(parts, "w_down_bias", {experts, width}, "down_proj_bias"));
}

} // namespace sluice
