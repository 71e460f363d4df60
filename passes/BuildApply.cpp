#include "dialects/sluice/Notation.h"
#include "passes/MaskSettings.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_BUILDAPPLY
#include "passes/Passes.h.inc"

namespace {

/// The optimizer's constants, from `sluice.training = {optimizer = {...}}` (docs/training.md).
struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weightDecay = 0.1, clip = 1.0;

  LogicalResult read(ModuleOp module) {
    auto training = module->getAttrOfType<DictionaryAttr>("sluice.training");
    auto optimizer = training ? training.getAs<DictionaryAttr>("optimizer") : DictionaryAttr();
    if (!optimizer)
      return success();
    if (auto kind = optimizer.getAs<StringAttr>("kind"); kind && kind.getValue() != "adamw")
      return module.emitError() << "optimizer.kind: expected adamw, found '" << kind.getValue() << "'";
    for (auto [name, target] : {std::pair{"beta1", &beta1},
                                {"beta2", &beta2},
                                {"epsilon", &epsilon},
                                {"weight_decay", &weightDecay},
                                {"clip", &clip}}) {
      Attribute value = optimizer.get(name);
      if (!value)
        continue;
      if (auto number = dyn_cast<FloatAttr>(value))
        *target = number.getValueAsDouble();
      else if (auto integer = dyn_cast<IntegerAttr>(value))
        *target = static_cast<double>(integer.getInt());
      else
        return module.emitError() << "optimizer." << name << ": expected a number, found " << value;
    }
    return success();
  }
};

struct BuildApply : impl::BuildApplyBase<BuildApply> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    AdamWSettings settings;
    if (failed(settings.read(module)) || failed(masks.read(module)))
      return signalPassFailure();
    SmallVector<StateOp> parameters = statesOf(module, "parameter");
    if (parameters.empty()) {
      module.emitError()
          << "the model has no parameter that its outputs depend on: there is nothing to train";
      return signalPassFailure();
    }
    createMoments(module, parameters);

    Type scalar = RankedTensorType::get({}, Float32Type::get(&getContext()));
    GraphOp apply =
        createGraph(module, "apply", {"learning_rate", "step", "tokens"}, {scalar, scalar, scalar});
    builder.emplace(OpBuilder::atBlockEnd(apply.getBlock()));
    Value learningRate = apply.getBlock()->getArgument(0), step = apply.getBlock()->getArgument(1),
          tokens = apply.getBlock()->getArgument(2);

    SmallVector<Value> gradients;
    for (StateOp parameter : parameters)
      gradients.push_back(read(parameter, ".gradient"));
    OriginAttr origin = OriginAttr::get(&getContext(), "", -1, "optimizer", "update");
    auto norm = GlobalNormOp::create(*builder, apply.getLoc(), gradients);
    setOrigin(norm, origin);
    for (auto [parameter, gradient] : llvm::zip(parameters, gradients)) {
      double decay = parameter.getDecay() ? settings.weightDecay : 0.0;
      Value weights = read(parameter, ""), average = read(parameter, ".exp_avg"),
            square = read(parameter, ".exp_avg_sq");
      SmallVector<StringRef> suffixes = {"", ".exp_avg", ".exp_avg_sq", ".gradient"};
      Operation *update;
      if (StateOp mask = maskOf(parameter)) {
        Value age = masks.ages(mask) ? read(parameter, ".age") : Value();
        if (age)
          suffixes.push_back(".age");
        auto kept = ReadOp::create(*builder, parameter.getLoc(), mask.getType(), symbol(parameter, ".mask"));
        setOrigin(kept, originFor(parameter));
        update = MaskedAdamWOp::create(
            *builder, parameter.getLoc(), weights, average, square, gradient, kept.getValue(), learningRate,
            step, tokens, norm.getNorm(), age, number(settings.beta1), number(settings.beta2),
            number(settings.epsilon), number(decay), number(settings.clip), number(age ? masks.ramp : 0));
      } else {
        update =
            AdamWOp::create(*builder, parameter.getLoc(), weights, average, square, gradient, learningRate,
                            step, tokens, norm.getNorm(), number(settings.beta1), number(settings.beta2),
                            number(settings.epsilon), number(decay), number(settings.clip));
      }
      setOrigin(update, originFor(parameter));
      for (auto [suffix, value] : llvm::zip(suffixes, update->getResults()))
        setOrigin(WriteOp::create(*builder, parameter.getLoc(), symbol(parameter, suffix), value),
                  originFor(parameter));
    }
    createReturn(apply, norm.getNorm(), {"gradient_norm"}, origin);
    builder.reset();
  }

private:
  void createMoments(ModuleOp module, ArrayRef<StateOp> parameters) {
    OpBuilder builder(module.getContext());
    builder.setInsertionPoint(*module.getOps<GraphOp>().begin());
    auto zero = FillAttr::get(module.getContext(), builder.getF64FloatAttr(0.0));
    for (StringRef role : {"exp_avg", "exp_avg_sq"})
      for (StateOp parameter : parameters) {
        auto moment = cast<StateOp>(builder.clone(*parameter.getOperation()));
        moment.setSymName((parameter.getSymName() + "." + role).str());
        moment.setInitAttr(zero);
        moment.setRole(role);
        moment.setCheckpoint((parameter.getCheckpoint() + "." + role).str());
      }
    for (StateOp parameter : parameters) {
      if (StateOp mask = maskOf(parameter); !mask || !masks.ages(mask))
        continue;
      auto age = cast<StateOp>(builder.clone(*parameter.getOperation()));
      age.setSymName((parameter.getSymName() + ".age").str());
      age.setInitAttr(zero);
      age.setRole("age");
      age.setCheckpoint((parameter.getCheckpoint() + ".age").str());
    }
  }

  StateOp maskOf(StateOp parameter) {
    return SymbolTable::lookupNearestSymbolFrom<StateOp>(
        parameter, StringAttr::get(&getContext(), maskName(parameter.getSymName())));
  }

  FlatSymbolRefAttr symbol(StateOp parameter, StringRef suffix) {
    return FlatSymbolRefAttr::get(&getContext(), (parameter.getSymName() + suffix).str());
  }
  Value read(StateOp parameter, StringRef suffix) {
    auto op = ReadOp::create(*builder, parameter.getLoc(), parameter.getType(), symbol(parameter, suffix));
    setOrigin(op, originFor(parameter));
    return op.getValue();
  }
  FloatAttr number(double value) { return builder->getF64FloatAttr(value); }
  /// The path names the parameter, so that the update of one tensor can be told from the next.
  OriginAttr originFor(StateOp parameter) {
    return OriginAttr::get(&getContext(), parameter.getSymName(), originOf(parameter).getLayer(), "optimizer",
                           "update");
  }

  MaskSettings masks;
  std::optional<OpBuilder> builder;
};

} // namespace
} // namespace sluice
