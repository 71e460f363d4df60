#include "frontends/decoder/StackedExperts.h"

using namespace mlir;

namespace sluice {
namespace {

/// The router's auxiliary losses and statistics.
void observeRouting(GraphParts &parts, Value logits, RouteOp route, Value targets) {
  const DecoderConfig &config = parts.config;
  OpBuilder &builder = parts.builder;
  IntegerAttr ignore = parts.integer(-100);
  auto add = [&](StringRef name, Value loss, double weight) {
    AuxiliaryLossOp::create(builder, parts.at(name), builder.getStringAttr(name), loss, parts.number(weight));
  };
  if (config.balanceWeight != 0)
    add("balance",
        SwitchBalanceOp::create(builder, parts.at("balance"), route.getProbabilities(), route.getRouting(),
                                targets, builder.getBoolAttr(config.moe->score == "sigmoid"), ignore),
        config.balanceWeight);
  if (config.routerZWeight != 0)
    add("router_z", RouterZOp::create(builder, parts.at("router_z"), logits, targets, ignore),
        config.routerZWeight);
  Value statistics = RoutingStatisticsOp::create(
      builder, parts.at("statistics"), logits, route.getProbabilities(), route.getRouting(), targets, ignore);
  ObserveOp::create(builder, parts.at("routing"), builder.getStringAttr("routing"), statistics);
}

/// Written for one expert.
Value buildExperts(GraphParts &parts, Value rows, Value routing) {
  const CheckpointNames &names = parts.config.names;
  auto experts = ExpertsOp::create(parts.builder, parts.at("experts"), rows.getType(), routing, rows);
  Block &body = experts.getBody().emplaceBlock();
  Value row = body.addArgument(rows.getType(), parts.at("row"));
  OpBuilder::InsertionGuard guard(parts.builder);
  parts.builder.setInsertionPointToStart(&body);
  Value out = buildFeedForward(
      parts, row, "expert", parts.config.moe->ffn,
      {names.layer + names.expertGate, names.layer + names.expertUp, names.layer + names.expertDown});
  YieldOp::create(parts.builder, parts.at("experts"), out);
  return experts.getResult(0);
}

/// An ordinary MLP beside the experts; with a gate, times sigmoid(w . n), one number a token.
Value buildSharedExpert(GraphParts &parts, Value n) {
  const MoeConfig &moe = *parts.config.moe;
  const CheckpointNames &names = parts.config.names;
  Value y = buildFeedForward(
      parts, n, "shared", moe.sharedFfn,
      {names.layer + names.sharedGate, names.layer + names.sharedUp, names.layer + names.sharedDown});
  if (!moe.sharedGate)
    return y;
  Value gate = parts.linear("shared_score", "w_score", "shared", n, parts.config.width, 1,
                            names.layer + names.sharedScore, false);
  gate = ActivationOp::create(parts.builder, parts.at("shared_gate"), gate,
                              parts.builder.getStringAttr("sigmoid"));
  return MultiplyOp::create(parts.builder, parts.at("shared_gated"), y, gate);
}

} // namespace

Value buildMoe(GraphParts &parts, Value x, Value targets) {
  const DecoderConfig &config = parts.config;
  const MoeConfig &moe = *config.moe;
  const CheckpointNames &names = config.names;
  OpBuilder &builder = parts.builder;
  Value n = parts.norm("normalized", x, "norm", config.width, names.layer + names.mlpNorm);
  SmallVector<Value> routed = parts.scope("router", "router", [&] {
    Value logits = parts.linear("router_logits", "weight", "router", n, config.width, moe.experts,
                                names.layer + names.router, moe.routerBias);
    Value bias = moe.selectionBias ? parts.param("selection_bias", "router", {moe.experts}, parts.fill(0),
                                                 names.layer + names.selectionBias)
                                   : Value();
    const bool grouped = moe.groups > 1;
    auto route = RouteOp::create(
        builder, parts.at("routing"), logits, bias, parts.integer(moe.topK), builder.getStringAttr(moe.score),
        builder.getBoolAttr(moe.renormalize), parts.number(moe.renormalizeEpsilon), parts.number(moe.scale),
        builder.getBoolAttr(moe.allowConstantGate), grouped ? parts.integer(moe.groups) : IntegerAttr(),
        grouped ? parts.integer(moe.groupsKept) : IntegerAttr(),
        grouped ? builder.getStringAttr(moe.groupScore) : StringAttr());
    observeRouting(parts, logits, route, targets);
    return SmallVector<Value>{route.getRouting(), route.getGates()};
  });
  Value routing = routed[0], gates = routed[1];
  Value y = parts.scope("experts", "expert", [&] {
    Value rows = DispatchOp::create(builder, parts.at("rows"), n, routing, Value());
    Value out =
        moe.clampedGate ? buildStackedExperts(parts, rows, routing) : buildExperts(parts, rows, routing);
    return SmallVector<Value>{CombineOp::create(builder, parts.at("combined"), out, routing, gates)};
  })[0];
  if (moe.sharedFfn == 0)
    return y;
  Value shared =
      parts.scope("shared", "shared", [&] { return SmallVector<Value>{buildSharedExpert(parts, n)}; })[0];
  return AddOp::create(builder, parts.at("with_shared"), y, shared);
}

} // namespace sluice
