#include "passes/Passes.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/PassManager.h"

namespace sluice {

void addPlanPasses(mlir::OpPassManager &manager) {
  manager.addPass(createFormCommands());
  // Lifetimes are counted in commands, so the order must be fixed first.
  manager.addPass(createAssignSlots());
  // Independent of how slots were found: it looks at the result only.
  manager.addPass(createVerifyPlan());
}

} // namespace sluice
