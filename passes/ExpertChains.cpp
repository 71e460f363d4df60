#include "passes/ExpertChains.h"

using namespace mlir;

namespace sluice {
namespace {

bool refuse(std::string &why, const llvm::Twine &reason) {
  why = reason.str();
  return false;
}

/// The only op of type Op among the users of `value` for which `accept` holds; null if there is none or more
/// than one.
template <typename Op> Op onlyUser(Value value, llvm::function_ref<bool(Op)> accept) {
  Op found = nullptr;
  for (Operation *user : value.getUsers()) {
    auto op = dyn_cast<Op>(user);
    if (!op || op == found || !accept(op))
      continue;
    if (found)
      return nullptr;
    found = op;
  }
  return found;
}

bool isForward(Operation *op) {
  OriginAttr origin = originOf(op);
  return origin && origin.getDirection() == "forward";
}

/// The dispatch (of `routing`) that made these rows, with or without gates; null if another op did.
DispatchOp dispatchOf(Value rows, Value routing) {
  auto dispatch = rows.getDefiningOp<DispatchOp>();
  return dispatch && dispatch.getRouting() == routing ? dispatch : nullptr;
}

/// The product dy w of the backward.
GroupedLinearOp transposedProduct(Value weight, Value routing) {
  return onlyUser<GroupedLinearOp>(weight, [&](GroupedLinearOp op) {
    return op.getWeight() == weight && op.getRouting() == routing && op.getTransposeWeight();
  });
}

GroupedWeightGradientOp weightGradient(Value dy, Value routing) {
  return onlyUser<GroupedWeightGradientOp>(
      dy, [&](GroupedWeightGradientOp op) { return op.getDy() == dy && op.getRouting() == routing; });
}

/// An elementwise piece of swiglu's adjoint: it reads dact, gate and up only.
bool isSwigluAdjoint(Operation *op, Value dact, const ExpertChain &chain) {
  return isa_and_nonnull<MapOp>(op) && llvm::is_contained(op->getOperands(), dact) &&
         llvm::all_of(op->getOperands(),
                      [&](Value v) { return v == dact || v == chain.gate || v == chain.up; });
}

} // namespace

bool matchForward(SwiGluOp swiglu, ExpertChain &chain, std::string &why) {
  auto gate = swiglu.getGate().getDefiningOp<GroupedLinearOp>(),
       up = swiglu.getUp().getDefiningOp<GroupedLinearOp>();
  if (!isForward(swiglu) || !gate || !up)
    return false;
  chain.path = originOf(swiglu).getPath().str();
  if (gate.getBias() || up.getBias())
    return refuse(why, "gate or up has a bias");
  if (gate.getMask() || up.getMask())
    return refuse(why, "gate or up has a mask");
  if (gate == up || gate.getX() != up.getX() || gate.getRouting() != up.getRouting())
    return refuse(why, "gate and up do not read the same rows");
  auto dispatch = dispatchOf(gate.getX(), gate.getRouting());
  if (!dispatch || dispatch.getGates())
    return refuse(why, "the rows do not come from a plain dispatch");
  chain.x = dispatch.getX(), chain.routing = gate.getRouting();
  chain.gateWeight = gate.getWeight(), chain.upWeight = up.getWeight();
  chain.gate = gate.getY(), chain.up = up.getY(), chain.act = swiglu.getY();
  return true;
}

bool requestUp(ExpertChain &chain, OutlineRequest &request, std::string &) {
  auto gate = chain.gate.getDefiningOp<GroupedLinearOp>();
  request.kind = "experts_up";
  request.ops = {gate.getX().getDefiningOp(), gate, chain.up.getDefiningOp(), chain.act.getDefiningOp()};
  request.inputs = {chain.x, chain.routing, chain.gateWeight, chain.upWeight};
  request.outputs = {chain.gate, chain.up, chain.act};
  return true;
}

bool requestDown(ExpertChain &chain, OutlineRequest &request, std::string &why) {
  auto down = onlyUser<GroupedLinearOp>(chain.act, [&](GroupedLinearOp op) {
    return op.getX() == chain.act && op.getRouting() == chain.routing && !op.getTransposeWeight();
  });
  if (!down)
    return refuse(why, "no single product down follows the activation");
  if (down.getBias())
    return refuse(why, "down has a bias");
  if (down.getMask())
    return refuse(why, "down has a mask");
  auto combine = onlyUser<CombineOp>(down.getY(), [&](CombineOp op) {
    return op.getRows() == down.getY() && op.getRouting() == chain.routing;
  });
  if (!combine || !combine.getGates())
    return refuse(why, "no combine with gates follows the product down");
  chain.gates = combine.getGates(), chain.downWeight = down.getWeight();
  chain.ye = down.getY(), chain.out = combine.getY();
  request.kind = "experts_down";
  request.ops = {down, combine};
  request.inputs = {chain.act, chain.routing, chain.gates, chain.downWeight};
  request.outputs = {chain.ye, chain.out};
  return true;
}

bool requestDownGradient(ExpertChain &chain, OutlineRequest &request, std::string &why) {
  GroupedLinearOp dact = transposedProduct(chain.downWeight, chain.routing);
  if (!dact)
    return refuse(why, "no single product by the transposed weight of down");
  DispatchOp drows = dispatchOf(dact.getX(), chain.routing);
  if (!drows || drows.getGates() != chain.gates)
    return refuse(why, "the rows' cotangent is not the dispatched, weighted one of the output");
  auto dgates = onlyUser<CombineGateGradientOp>(chain.ye, [&](CombineGateGradientOp op) {
    return op.getRows() == chain.ye && op.getDy() == drows.getX() && op.getRouting() == chain.routing;
  });
  if (!dgates)
    return refuse(why, "the gates get no gradient");
  // The products by the transposed weights of gate and up tell the two cotangents apart.
  GroupedLinearOp fromGate = transposedProduct(chain.gateWeight, chain.routing),
                  fromUp = transposedProduct(chain.upWeight, chain.routing);
  if (!fromGate || !fromUp)
    return refuse(why, "the tokens get no gradient through gate and up");
  Operation *dgate = fromGate.getX().getDefiningOp(), *dup = fromUp.getX().getDefiningOp();
  if (dgate == dup || !isSwigluAdjoint(dgate, dact.getY(), chain) ||
      !isSwigluAdjoint(dup, dact.getY(), chain))
    return refuse(why, "gate or up is used by more than swiglu");
  chain.dout = drows.getX(), chain.dgate = fromGate.getX(), chain.dup = fromUp.getX();
  request.kind = "experts_down_gradient";
  request.ops = {drows, dgates, dact, dgate, dup};
  request.inputs = {chain.dout, chain.routing, chain.gates, chain.downWeight, chain.gate, chain.up, chain.ye};
  request.outputs = {dgates.getDgates(), chain.dgate, chain.dup};
  return true;
}

bool requestDownWeightGradient(ExpertChain &chain, OutlineRequest &request, std::string &why) {
  auto drows = onlyUser<DispatchOp>(chain.dout, [&](DispatchOp op) {
    return op.getX() == chain.dout && op.getRouting() == chain.routing && op.getGates() == chain.gates;
  });
  GroupedWeightGradientOp gradient = drows ? weightGradient(drows.getRows(), chain.routing) : nullptr;
  if (!gradient)
    return refuse(why, "no single weight gradient of down");
  request.kind = "experts_down_weight_gradient";
  request.ops = {drows, gradient};
  request.inputs = {chain.dout, chain.routing, chain.gates, gradient.getX()};
  request.outputs = {gradient.getDweight()};
  return true;
}

bool requestUpGradient(ExpertChain &chain, OutlineRequest &request, std::string &why) {
  GroupedLinearOp fromGate = transposedProduct(chain.gateWeight, chain.routing),
                  fromUp = transposedProduct(chain.upWeight, chain.routing);
  if (!fromGate || !fromUp || fromGate.getX() != chain.dgate || fromUp.getX() != chain.dup)
    return refuse(why, "the products by the transposed weights of gate and up are missing");
  auto add = onlyUser<AddOp>(fromGate.getY(),
                             [&](AddOp op) { return llvm::is_contained(op->getOperands(), fromUp.getY()); });
  auto combine = add ? onlyUser<CombineOp>(add.getY(),
                                           [&](CombineOp op) {
                                             return op.getRows() == add.getY() &&
                                                    op.getRouting() == chain.routing && !op.getGates();
                                           })
                     : nullptr;
  if (!combine)
    return refuse(why, "the dispatched rows are used by more than gate and up");
  request.kind = "experts_up_gradient";
  request.ops = {fromGate, fromUp, add, combine};
  Value dx = combine.getY();
  // combine without gates yields [tokens, d]; a reshape gives the tokens their dimensions back.
  if (auto reshape = dx.hasOneUse() ? dyn_cast<ReshapeOp>(*dx.getUsers().begin()) : nullptr) {
    request.ops.push_back(reshape);
    dx = reshape.getY();
  }
  request.inputs = {chain.dgate, chain.dup, chain.routing, chain.gateWeight, chain.upWeight};
  request.outputs = {dx};
  return true;
}

bool requestUpWeightGradient(ExpertChain &chain, OutlineRequest &request, std::string &why) {
  GroupedWeightGradientOp ofGate = weightGradient(chain.dgate, chain.routing),
                          ofUp = weightGradient(chain.dup, chain.routing);
  if (!ofGate || !ofUp)
    return refuse(why, "no single weight gradients of gate and up");
  DispatchOp rows = dispatchOf(ofGate.getX(), chain.routing),
             otherRows = dispatchOf(ofUp.getX(), chain.routing);
  if (!rows || !otherRows || rows.getX() != chain.x || otherRows.getX() != chain.x)
    return refuse(why, "the rows of the weight gradients are not the dispatched tokens");
  request.kind = "experts_up_weight_gradient";
  request.ops = {rows, ofGate, ofUp};
  if (otherRows != rows)
    request.ops.push_back(otherRows);
  request.inputs = {chain.x, chain.routing, chain.dgate, chain.dup};
  request.outputs = {ofGate.getDweight(), ofUp.getDweight()};
  return true;
}

} // namespace sluice
