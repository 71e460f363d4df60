#include "passes/Outline.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_FUSECROSSENTROPY
#include "passes/Passes.h.inc"

namespace {

/// A value without the reshapes that lead to it.
Value rootOf(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The users of a value; reshapes are passed through and gathered in `views`.
void usersThroughViews(Value value, SmallVectorImpl<Operation *> &users,
                       SmallVectorImpl<Operation *> &views) {
  for (Operation *user : value.getUsers()) {
    if (!isa<ReshapeOp>(user)) {
      users.push_back(user);
      continue;
    }
    views.push_back(user);
    usersThroughViews(user->getResult(0), users, views);
  }
}

/// An output projection with its loss: the ops of the chain, as found from `linear`.
struct Chain {
  LinearOp linear;
  CrossEntropyOp loss;
  CrossEntropyGradientOp gradient;
  ContractOp dx, dw;
  SmallVector<Operation *> ops;
  std::string why;

  explicit Chain(CrossEntropyOp loss)
      : linear(rootOf(loss.getLogits()).getDefiningOp<LinearOp>()), loss(loss) {}

  bool match() {
    if (!linear || linear.getBias() || linear.getMask())
      return false;
    SmallVector<Operation *> users;
    ops.push_back(linear);
    usersThroughViews(linear.getY(), users, ops);
    for (Operation *user : users) {
      ops.push_back(user);
      if (auto op = dyn_cast<CrossEntropyGradientOp>(user); op && !gradient)
        gradient = op;
      else if (user != loss) {
        why = "the logits are read by " + user->getName().getStringRef().str() + " too";
        return false;
      }
    }
    return !gradient || matchGradient();
  }

  bool matchGradient() {
    if (gradient.getTargets() != loss.getTargets() || gradient.getIgnoreIndex() != loss.getIgnoreIndex()) {
      why = "loss and gradient read different targets";
      return false;
    }
    SmallVector<Operation *> users;
    usersThroughViews(gradient.getDlogits(), users, ops);
    for (Operation *user : users) {
      ops.push_back(user);
      auto contract = dyn_cast<ContractOp>(user);
      if (!contract) {
        why = "the logits' gradient is read by " + user->getName().getStringRef().str() + " too";
        return false;
      }
      bool first = rootOf(contract.getA()) == gradient.getDlogits();
      Value other = rootOf(first ? contract.getB() : contract.getA());
      if (other == linear.getWeight() &&
          contract.getC().getType().getShape().back() == linear.getX().getType().getShape().back())
        dx = contract;
      else if (other == rootOf(linear.getX()) && contract.getC().getType() == linear.getWeight().getType())
        dw = contract;
    }
    if (users.size() == 2 && dx && dw)
      return true;
    why = "the logits' gradient is not read by exactly the two products of a linear op";
    return false;
  }
};

struct FuseCrossEntropy : impl::FuseCrossEntropyBase<FuseCrossEntropy> {
  void runOnOperation() override {
    for (GraphOp graph : getOperation().getOps<GraphOp>()) {
      SmallVector<CrossEntropyOp> losses(graph.getBlock()->getOps<CrossEntropyOp>());
      for (CrossEntropyOp loss : losses)
        fuse(loss);
    }
  }

  void fuse(CrossEntropyOp loss) {
    Chain chain(loss);
    if (!chain.match()) {
      if (!chain.why.empty())
        loss.emitRemark() << "all logits are kept: " << chain.why;
      return;
    }
    OutlineRequest request;
    Builder builder(&getContext());
    request.settings = builder.getDictionaryAttr(
        builder.getNamedAttr("ignore_index", builder.getI64IntegerAttr(loss.getIgnoreIndex())));
    request.inputs = {chain.linear.getX(), chain.linear.getWeight(), loss.getTargets()};
    request.outputs = {loss.getLossSum()};
    request.kind = "linear_cross_entropy";
    if (chain.gradient) {
      request.kind = "linear_cross_entropy_gradient";
      request.inputs.push_back(chain.gradient.getG());
      request.outputs.append({chain.dx.getC(), chain.dw.getC()});
    }
    addViewsOfInputs(chain, request);
    llvm::SetVector<Operation *> ops(chain.ops.begin(), chain.ops.end());
    request.ops = ops.takeVector();
    std::string why;
    if (!outline(request, [](Operation *op) { return isa<ReshapeOp>(op); }, why))
      loss.emitRemark() << "all logits are kept: " << why;
  }

  /// Reshapes of x that the weight's product reads go along.
  static void addViewsOfInputs(Chain &chain, OutlineRequest &request) {
    if (!chain.dw)
      return;
    llvm::DenseSet<Value> inputs(request.inputs.begin(), request.inputs.end());
    llvm::DenseSet<Operation *> inside(chain.ops.begin(), chain.ops.end());
    for (Value value : {chain.dw.getA(), chain.dw.getB()})
      while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
        if (inside.contains(reshape) || inputs.contains(value))
          break;
        chain.ops.push_back(reshape);
        value = reshape.getX();
      }
  }
};

} // namespace
} // namespace sluice
