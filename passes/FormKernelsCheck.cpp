#include "passes/Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_CHECKLOWERING
#include "passes/Passes.h.inc"

namespace {

bool reachesDevice(Operation *op) {
  if (isa<KernelOp, ReshapeOp, ReadOp, WriteOp, AccumulateOp, ReturnOp>(op))
    return true;
  auto lowerable = dyn_cast<Lowerable>(op);
  return lowerable && !lowerable.commandKind().empty();
}

/// Optional properties of commands that a device's kernels compute, named as in docs/commands.md.
struct KnownProperties {
  llvm::StringLiteral device, kind;
  SmallVector<llvm::StringLiteral> properties;
};

/// The properties of `op`'s command that `device` does not compute: a kernel must never ignore one in
/// silence.
SmallVector<StringRef> missingProperties(Operation *op, StringRef device) {
  static const llvm::StringLiteral optional[] = {"value_dim", "window",     "softcap",     "sinks",
                                                 "slopes",    "rotary_dim", "interleaved", "factor",
                                                 "offset",    "frequencies"};
  static const KnownProperties known[] = {
      {"cpu", "attention_forward", {"value_dim", "window", "softcap", "sinks", "slopes"}},
      {"cpu", "attention_backward", {"value_dim", "window", "softcap", "sinks", "slopes"}},
      {"cpu", "rope", {"rotary_dim", "interleaved", "factor", "offset", "frequencies"}},
  };
  SmallVector<StringRef> missing;
  auto lowerable = dyn_cast<Lowerable>(op);
  if (!lowerable || !isa<AttentionOp, AttentionGradientOp, RopeOp>(op))
    return missing;
  NamedAttrList attributes;
  lowerable.commandAttributes(attributes);
  const std::string kind = lowerable.commandKind();
  for (NamedAttribute attribute : attributes) {
    StringRef name = attribute.getName();
    const bool computed = llvm::any_of(known, [&](const KnownProperties &entry) {
      return entry.device == device && entry.kind == kind && llvm::is_contained(entry.properties, name);
    });
    if (llvm::is_contained(optional, name) && !computed)
      missing.push_back(name);
  }
  return missing;
}

struct CheckLowering : impl::CheckLoweringBase<CheckLowering> {
  using CheckLoweringBase::CheckLoweringBase;

  void runOnOperation() override {
    SmallVector<std::pair<Operation *, std::string>> missing;
    for (GraphOp graph : getOperation().getOps<GraphOp>())
      for (Operation &op : *graph.getBlock()) {
        if (!reachesDevice(&op))
          missing.emplace_back(&op,
                               isa<PositionEmbeddingOp, PositionEmbeddingGradientOp>(op)
                                   ? "the sequence is longer than the table of learned positions; bind a "
                                     "shorter seq"
                                   : "neither a library command nor made of primitives that kernels compute");
        else if (SmallVector<StringRef> properties = missingProperties(&op, device); !properties.empty())
          missing.emplace_back(&op, "the device's kernel lacks " + llvm::join(properties, ", "));
      }
    if (missing.empty())
      return;
    InFlightDiagnostic report = getOperation().emitError()
                                << missing.size() << " op(s) have no lowering for device '" << device << "'";
    for (auto &[op, reason] : missing) {
      OriginAttr origin = originOf(op);
      report.attachNote(op->getLoc())
          << op->getName() << " in '" << (origin ? origin.getPath() : "?") << "': " << reason;
    }
    signalPassFailure();
  }
};

} // namespace
} // namespace sluice
