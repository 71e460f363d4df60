#include "dialects/sluice/Dims.h"
#include "passes/Passes.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_OPENEXPERTS
#include "passes/Passes.h.inc"

namespace {

bool isInside(Value value, ExpertsOp experts) {
  return value && value.getDefiningOp<ParamOp>() && experts->isProperAncestor(value.getDefiningOp());
}

/// [experts, ...] instead of [...]: one tensor holds every expert's parameter.
LogicalResult stackParameter(ParamOp param, RoutingType routing) {
  for (OpOperand &use : param.getValue().getUses()) {
    auto linear = dyn_cast<LinearOp>(use.getOwner());
    if (!linear || (use.get() != linear.getWeight() && use.get() != linear.getBias()) ||
        use.get() == linear.getX())
      return use.getOwner()->emitError()
             << "parameter '" << param.getName()
             << "' exists once an expert, so only sluice.linear may use it, as weight "
             << "or bias; found " << use.getOwner()->getName()
             << " (move the parameter out of experts to share it)";
  }
  auto type = cast<RankedTensorType>(param.getValue().getType());
  Builder builder(param.getContext());
  if (!param.getDecay())
    param.setDecayAttr(builder.getBoolAttr(type.getRank() >= 2));
  param->setAttr("sluice.experts", builder.getI64IntegerAttr(routing.getExperts()));
  param->setAttr("sluice.active", builder.getI64IntegerAttr(routing.getTopK()));
  SmallVector<int64_t> sizes(type.getShape());
  sizes.insert(sizes.begin(), routing.getExperts());
  param.getValue().setType(RankedTensorType::get(sizes, type.getElementType()));
  return success();
}

/// One mask an expert, in one value.
LogicalResult stackMask(ParamMaskOp source, RoutingType routing) {
  for (Operation *user : source.getMask().getUsers())
    if (!isa<LinearOp>(user))
      return user->emitError() << "the mask of parameter '" << source.getParameter()
                               << "' exists once an expert, so only sluice.linear may use it";
  source.getMask().setType(source.getMask().getType().stacked(routing.getExperts()));
  return success();
}

LogicalResult openLinear(LinearOp linear, ExpertsOp experts) {
  bool ownWeight = isInside(linear.getWeight(), experts);
  if (linear.getBias() && ownWeight != isInside(linear.getBias(), experts))
    return linear.emitError() << "weight and bias must both be parameters of the experts, or both be shared";
  if (!ownWeight)
    return success(); // one weight for all experts: an ordinary product of all rows
  if (cast<RankedTensorType>(linear.getX().getType()).getRank() != 2)
    return linear.emitError() << "experts work on dispatched rows [rows, in], found "
                              << shapeText(linear.getX().getType());
  OpBuilder builder(linear);
  auto grouped = GroupedLinearOp::create(builder, linear.getLoc(), linear.getX(), linear.getWeight(),
                                         experts.getRouting(), linear.getBias(), linear.getMask(),
                                         /*transpose_weight=*/false);
  linear.replaceAllUsesWith(grouped.getY());
  linear.erase();
  return success();
}

LogicalResult open(ExpertsOp experts) {
  SmallVector<ParamOp> params;
  SmallVector<ParamMaskOp> masks;
  SmallVector<LinearOp> linears;
  experts.walk([&](Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op))
      params.push_back(param);
    else if (auto mask = dyn_cast<ParamMaskOp>(op))
      masks.push_back(mask);
    else if (auto linear = dyn_cast<LinearOp>(op))
      linears.push_back(linear);
  });
  for (ParamOp param : params)
    if (failed(stackParameter(param, cast<RoutingType>(experts.getRouting().getType()))))
      return failure();
  for (ParamMaskOp mask : masks)
    if (failed(stackMask(mask, cast<RoutingType>(experts.getRouting().getType()))))
      return failure();
  for (LinearOp linear : linears)
    if (failed(openLinear(linear, experts)))
      return failure();

  Block &body = experts.getBody().front();
  for (auto [argument, input] : llvm::zip(body.getArguments(), experts.getInputs()))
    argument.replaceAllUsesWith(input);
  Operation *yield = body.getTerminator();
  experts->replaceAllUsesWith(yield->getOperands());
  yield->erase();
  experts->getBlock()->getOperations().splice(experts->getIterator(), body.getOperations());
  experts.erase();
  return success();
}

struct OpenExperts : impl::OpenExpertsBase<OpenExperts> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](ExpertsOp experts) {
      return failed(open(experts)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace sluice
