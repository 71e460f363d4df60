#include "dialects/sluice/Notation.h"
#include "dialects/sluice/ops/MaskRules.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_STOREKEPT
#include "passes/Passes.h.inc"

namespace {

/// The states of one parameter that change their form together, and the ops that touch them.
struct Family {
  StateOp mask, parameter;
  SmallVector<StateOp> states; // parameter, gradient, moments, age
  SmallVector<ReadOp> reads;
  SmallVector<WriteOp> writes;
  SmallVector<AccumulateOp> sums;
};

/// Whether the kernel of `op` skips the zeros of every mask that it may meet.
bool alwaysSkips(Operation *op, MaskType mask) {
  auto most = op->getAttrOfType<IntegerAttr>(skipAtMostAttributeName);
  return most && mask.getKept() <= most.getInt();
}

struct StoreKept : impl::StoreKeptBase<StoreKept> {
  void runOnOperation() override {
    llvm::MapVector<StringAttr, Family> families; // by parameter
    for (StateOp state : getOperation().getOps<StateOp>())
      if (state.getRole() == "mask")
        families[state.getParameterAttr()].mask = state;
    if (families.empty())
      return;
    llvm::DenseMap<StringAttr, Family *> owner; // by state
    for (StateOp state : getOperation().getOps<StateOp>()) {
      auto family = families.find(state.getParameterAttr());
      if (family == families.end() ||
          !llvm::is_contained({"parameter", "gradient", "exp_avg", "exp_avg_sq", "age"}, state.getRole()))
        continue;
      if (state.getRole() == "parameter")
        family->second.parameter = state;
      family->second.states.push_back(state);
      owner[state.getSymNameAttr()] = &family->second;
    }
    getOperation().walk([&](Operation *op) {
      if (auto read = dyn_cast<ReadOp>(op)) {
        if (Family *family = owner.lookup(read.getStateAttr().getAttr()))
          family->reads.push_back(read);
      } else if (auto write = dyn_cast<WriteOp>(op)) {
        if (Family *family = owner.lookup(write.getStateAttr().getAttr()))
          family->writes.push_back(write);
      } else if (auto sum = dyn_cast<AccumulateOp>(op)) {
        if (Family *family = owner.lookup(sum.getStateAttr().getAttr()))
          family->sums.push_back(sum);
      }
    });
    for (auto &[name, family] : families)
      if (family.parameter && isPossible(family))
        convert(family);
  }

private:
  /// Everything that touches the states must know the kept form.
  static bool isPossible(const Family &family) {
    auto mask = cast<MaskType>(family.mask->getAttrOfType<TypeAttr>("type").getValue());
    auto target = family.mask->getAttrOfType<IntegerAttr>("sluice.target");
    if (target && target.getInt() != mask.getKept())
      return false;
    auto readsKeptForm = [&](Operation *user) {
      return isa<MaskedAdamWOp, UpdateMaskOp, GlobalNormOp>(user) ||
             (isa<LinearOp, MaskedInputGradientOp, GroupedLinearOp>(user) && alwaysSkips(user, mask));
    };
    for (ReadOp read : family.reads)
      if (!llvm::all_of(read.getValue().getUsers(), readsKeptForm))
        return false;
    for (WriteOp write : family.writes)
      if (!isa_and_nonnull<ApplyMaskOp, ConstantOp, MaskedAdamWOp, UpdateMaskOp>(
              write.getValue().getDefiningOp()))
        return false;
    for (AccumulateOp sum : family.sums) {
      Operation *source = sum.getValue().getDefiningOp();
      const bool fits = isa_and_nonnull<ApplyMaskOp>(source) ||
                        (isa_and_nonnull<MaskedWeightGradientOp, GroupedWeightGradientOp>(source) &&
                         alwaysSkips(source, mask));
      if (!fits || !source->hasOneUse())
        return false;
    }
    return true;
  }

  static void convert(const Family &family) {
    auto mask = cast<MaskType>(StateOp(family.mask).getType());
    OpBuilder builder(mask.getContext());
    auto keptForm = [&](Type type) -> Type {
      return RankedTensorType::get(mask.keptShape(), cast<RankedTensorType>(type).getElementType());
    };
    for (StateOp state : family.states) {
      state.setTypeAttr(TypeAttr::get(keptForm(state.getType())));
      state->setAttr(keptByAttributeName, FlatSymbolRefAttr::get(StateOp(family.mask).getSymNameAttr()));
    }
    for (ReadOp read : family.reads) {
      for (Operation *user : read.getValue().getUsers())
        if (auto norm = dyn_cast<GlobalNormOp>(user); norm && !norm->hasAttr(wholeElementsAttributeName))
          norm->setAttr(wholeElementsAttributeName, builder.getI64IntegerAttr(elementsOf(norm)));
      read.getValue().setType(keptForm(read.getValue().getType()));
    }
    // What the ledger counts does not depend on the form.
    for (AccumulateOp sum : family.sums) {
      sum->setAttr(wholeElementsAttributeName,
                   builder.getI64IntegerAttr(mask.matrixSize() * mask.matrices()));
      keepOnly(sum.getValue().getDefiningOp(), keptForm(sum.getValue().getType()));
    }
    for (WriteOp write : family.writes) {
      Value value = write.getValue();
      Operation *source = value.getDefiningOp();
      if (isa<ApplyMaskOp>(source)) {
        keepOnly(source, keptForm(value.getType()));
      } else if (auto constant = dyn_cast<ConstantOp>(source)) {
        builder.setInsertionPoint(write);
        auto kept = ConstantOp::create(builder, constant.getLoc(), constant.getValueAttr(),
                                       builder.getDenseI64ArrayAttr(mask.keptShape()));
        setOrigin(kept, originOf(constant));
        write.getValueMutable().assign(kept.getResult());
        if (constant->use_empty())
          constant->erase();
      } else if (value.getType() != keptForm(value.getType())) {
        value.setType(keptForm(value.getType())); // a result that has its operand's form
      }
    }
  }

  static int64_t elementsOf(GlobalNormOp norm) {
    int64_t elements = 0;
    for (Value gradient : norm.getGradients())
      elements += cast<RankedTensorType>(gradient.getType()).getNumElements();
    return elements;
  }

  static void keepOnly(Operation *op, Type type) {
    op->setAttr("kept_only", UnitAttr::get(op->getContext()));
    op->getResult(0).setType(type);
  }
};

} // namespace
} // namespace sluice
