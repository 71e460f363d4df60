#include "passes/ExpertChains.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include <set>

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_FUSEEXPERTS
#include "passes/Passes.h.inc"

namespace {

/// FLOPs inside contractions, which fusing must not change (copied gathers do no arithmetic of that class).
Count contractions(GraphOp graph) {
  Count sum = 0;
  graph.walk([&](Operation *op) {
    if (auto countable = dyn_cast<Countable>(op))
      sum += countable.count().ideal.contraction;
  });
  return sum;
}

struct FuseExperts : impl::FuseExpertsBase<FuseExperts> {
  void runOnOperation() override {
    for (GraphOp graph : getOperation().getOps<GraphOp>()) {
      SmallVector<SwiGluOp> activations(graph.getBlock()->getOps<SwiGluOp>());
      const bool any = !graph.getBlock()->getOps<GroupedLinearOp>().empty();
      if (!any)
        continue;
      const Count before = contractions(graph);
      for (SwiGluOp swiglu : activations)
        fuse(swiglu);
      remarkRemaining(graph);
      if (Count after = contractions(graph); after != before) {
        graph.emitError() << "fuse-experts changed the contractions from " << toDecimal(before) << " to "
                          << toDecimal(after) << " FLOPs; this is a bug in the pass";
        return signalPassFailure();
      }
    }
  }

private:
  using Request = bool (*)(ExpertChain &, OutlineRequest &, std::string &);

  void fuse(SwiGluOp swiglu) {
    ExpertChain chain;
    std::string why;
    Location loc = swiglu.getLoc();
    const bool trains = swiglu->getParentOfType<GraphOp>().getSymName().starts_with("accumulate");
    if (!matchForward(swiglu, chain, why)) {
      if (!why.empty())
        missed(loc, chain, "experts_up", why);
      return;
    }
    if (KernelOp kernel = apply(loc, chain, requestUp, "experts_up")) {
      chain.gate = kernel.getResult(0), chain.up = kernel.getResult(1), chain.act = kernel.getResult(2);
    }
    if (KernelOp kernel = apply(loc, chain, requestDown, "experts_down"))
      chain.ye = kernel.getResult(0), chain.out = kernel.getResult(1);
    if (!trains || !chain.ye)
      return;
    KernelOp kernel = apply(loc, chain, requestDownGradient, "experts_down_gradient");
    if (!kernel)
      return; // the rest is found from its results
    chain.dgate = kernel.getResult(1), chain.dup = kernel.getResult(2);
    apply(loc, chain, requestDownWeightGradient, "experts_down_weight_gradient");
    apply(loc, chain, requestUpGradient, "experts_up_gradient");
    apply(loc, chain, requestUpWeightGradient, "experts_up_weight_gradient");
  }

  KernelOp apply(Location loc, ExpertChain &chain, Request find, StringRef kind) {
    OutlineRequest request;
    std::string why;
    KernelOp kernel;
    Builder builder(&getContext());
    request.settings = builder.getDictionaryAttr(builder.getNamedAttr(
        "top_k", builder.getI64IntegerAttr(cast<RoutingType>(chain.routing.getType()).getTopK())));
    if (find(chain, request, why))
      // Every kernel gathers for itself: a dispatch moves rows and may be done in several kernels.
      kernel = outline(request, [](Operation *op) { return isa<DispatchOp>(op); }, why);
    if (!kernel)
      missed(loc, chain, kind, why);
    else
      emitRemark(loc) << "fused in '" << chain.path << "': " << kind << " from "
                      << kernel.getBody().front().getOperations().size() - 1 << " ops";
    return kernel;
  }

  void missed(Location loc, const ExpertChain &chain, StringRef kind, StringRef why) {
    emitRemark(loc) << "not fused in '" << chain.path << "' to " << kind << ": " << why
                    << "; its ops stay single commands";
  }

  /// Experts whose activation is not swiglu never met a matcher.
  void remarkRemaining(GraphOp graph) {
    std::set<std::string> told;
    for (GroupedLinearOp op : graph.getBlock()->getOps<GroupedLinearOp>()) {
      OriginAttr origin = originOf(op);
      bool nearSwiglu =
          op.getX().getDefiningOp<SwiGluOp>() || op.getX().getDefiningOp<KernelOp>() ||
          llvm::any_of(op.getY().getUsers(), [](Operation *user) { return isa<SwiGluOp>(user); });
      if (origin.getDirection() == "forward" && !nearSwiglu && told.insert(origin.getPath().str()).second)
        emitRemark(op.getLoc()) << "not fused in '" << origin.getPath()
                                << "': the experts are not gate, up, swiglu and down; their ops "
                                << "stay single commands";
    }
  }
};

} // namespace
} // namespace sluice
