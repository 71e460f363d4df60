// sluice-opt: the pass tool, like mlir-opt, with our dialects and passes. `--sluice-to-phase="phase=flatten
// bindings=batch=2,seq=4"` runs the pipeline; single passes are `--sluice-...`.
#include "dialects/plan/Plan.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<sluice::SluiceDialect, sluice::plan::PlanDialect, mlir::arith::ArithDialect,
                  mlir::math::MathDialect>();
  sluice::registerSluicePasses();
  sluice::registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Sluice pass tool\n", registry));
}
