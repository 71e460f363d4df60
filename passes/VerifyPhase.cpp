#include "passes/Passes.h"
#include "passes/Phases.h"
#include "passes/Rewriting.h"

#include "dialects/plan/Plan.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_VERIFYPHASE
#include "passes/Passes.h.inc"

namespace {

/// What an op breaks, or an empty string. A rule holds from the end of its phase on.
using Check = std::string (*)(Operation *);
struct Rule {
  Phase since;
  Check check;
};

template <typename... Ops> std::string gone(Operation *op) {
  return isa<Ops...>(op) ? "must be gone" : std::string();
}

template <typename Predicate> bool anyType(Operation *op, Predicate predicate) {
  auto matches = [&](Type type) { return predicate(type); };
  return llvm::any_of(op->getOperandTypes(), matches) || llvm::any_of(op->getResultTypes(), matches);
}

std::string namedDimension(Operation *op) {
  bool found = anyType(op, [](Type type) {
    if (auto routing = dyn_cast<RoutingType>(type))
      return routing.tokenCount() < 0;
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && (!tensor.hasStaticShape() || tensor.getEncoding());
  });
  return found ? "has a dimension without a size" : "";
}

/// Ops directly in a graph or a kernel, and states; not the scalars inside a map.
std::string withoutOrigin(Operation *op) {
  bool demanded = isa<StateOp>(op) || isa_and_nonnull<GraphOp, KernelOp>(op->getParentOp());
  return demanded && !isa<YieldOp>(op) && !originOf(op) ? "has no origin" : "";
}

std::string otherEntryPoint(Operation *op) {
  auto graph = dyn_cast<GraphOp>(op);
  if (!graph || llvm::is_contained(
                    {"init", "accumulate", "accumulate_dense", "apply", "update_topology", "eval", "logits"},
                    graph.getSymName()))
    return "";
  return "'" + graph.getSymName().str() + "' is not an entry point";
}

std::string otherFloat(Operation *op) {
  bool found = anyType(op, [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && isa<FloatType>(tensor.getElementType()) && !tensor.getElementType().isF32();
  });
  return found ? "computes in another format than float32" : "";
}

/// The table: what must no longer occur, phase by phase.
constexpr Rule rules[] = {
    {Phase::Bind, namedDimension},
    {Phase::Flatten, gone<RepeatOp, ScopeOp, ExpertsOp>},
    {Phase::Flatten, gone<ParamOp, ParamMaskOp, AuxiliaryLossOp, ObserveOp>},
    {Phase::Flatten, withoutOrigin},
    {Phase::Differentiate, otherEntryPoint},
    {Phase::Precision, otherFloat},
};

/// What must not occur yet.
std::string tooEarly(Operation *op, Phase phase) {
  if (phase < Phase::Differentiate && isa<WriteOp, AccumulateOp, AdamWOp, MaskedAdamWOp, UpdateMaskOp>(op))
    return "belongs to differentiate or later";
  if (phase < Phase::FuseExperts && isa<KernelOp>(op))
    return "belongs to fuse-experts or later";
  if (phase < Phase::Plan && isa<plan::CommandOp, plan::ArenaOp>(op))
    return "belongs to plan";
  return "";
}

struct VerifyPhase : impl::VerifyPhaseBase<VerifyPhase> {
  using VerifyPhaseBase::VerifyPhaseBase;

  void runOnOperation() override {
    std::optional<Phase> ended = phaseByName(phase);
    if (!ended) {
      getOperation().emitError() << "no phase is called '" << phase << "'";
      return signalPassFailure();
    }
    bool broken = false;
    getOperation().walk([&](Operation *op) {
      std::string finding = tooEarly(op, *ended);
      for (const Rule &rule : rules)
        if (finding.empty() && rule.since <= *ended)
          finding = rule.check(op);
      if (finding.empty())
        return;
      broken = true;
      OriginAttr origin = originOf(op);
      InFlightDiagnostic diagnostic = op->emitError() << "after " << phase << ": " << op->getName();
      if (origin)
        diagnostic << " in '" << origin.getPath() << "'";
      diagnostic << " " << finding;
    });
    if (broken)
      signalPassFailure();
  }
};

} // namespace
} // namespace sluice
