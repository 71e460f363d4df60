#include "passes/Passes.h"

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_CHOOSEPRECISION
#include "passes/Passes.h.inc"

namespace {

struct ChoosePrecision : impl::ChoosePrecisionBase<ChoosePrecision> {
  using ChoosePrecisionBase::ChoosePrecisionBase;

  void runOnOperation() override {
    if (precision != "float32") {
      getOperation().emitError() << "precision: expected float32 (the only one so far), found '" << precision
                                 << "'";
      return signalPassFailure();
    }
    getOperation()->setAttr("sluice.precision", StringAttr::get(&getContext(), precision));
  }
};

} // namespace
} // namespace sluice
