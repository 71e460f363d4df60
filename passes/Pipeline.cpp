#include "passes/Pipeline.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace sluice {
namespace {

void addBind(OpPassManager &manager, const PipelineOptions &options) {
  // The graph for generation has its own batch, so it must exist before names become numbers.
  manager.addPass(createSplitLogits());
  manager.addPass(createBindDimensions({options.bindings}));
}

void addFlatten(OpPassManager &manager) {
  // Layers first: an iteration becomes a scope, so that all later passes know one notation for names. Opening
  // experts before layers exist would save little and would need parameters that are stacked twice.
  manager.addPass(createUnrollRepeats());
  // Experts are opened while their parameters still are `param` ops inside them: afterwards nothing says
  // which parameters exist once an expert.
  manager.addPass(createOpenExperts());
  // Only now does every op have its final place in the nest: paths become origins, parameters become state.
  manager.addPass(createDissolveScopes());
  // Losses need the order of layers in one block. This also drops what nothing reads.
  manager.addPass(createCollectLosses());
}

void addDifferentiate(OpPassManager &manager) {
  // eval copies the forward before differentiate extends it.
  manager.addPass(createBuildEval());
  // Creates the gradient states that apply reads.
  manager.addPass(createDifferentiate());
  // Creates the moments and ages.
  manager.addPass(createBuildApply());
  // Reads them, and copies accumulate with its backward. init must see every state, so it comes last.
  manager.addPass(createBuildTopology());
  manager.addPass(createBuildInit());
}

struct ToPhaseOptions : PassPipelineOptions<ToPhaseOptions> {
  Option<std::string> phase{*this, "phase", llvm::cl::desc("The last phase to run"), llvm::cl::init("plan")};
  Option<std::string> bindings{*this, "bindings",
                               llvm::cl::desc("Sizes of named dimensions, e.g. batch=8,seq=256")};
  Option<std::string> precision{*this, "precision", llvm::cl::desc("float32"), llvm::cl::init("float32")};
  Option<int64_t> budget{*this, "budget", llvm::cl::desc("Bytes for saved values; 0: no limit"),
                         llvm::cl::init(0)};
};

} // namespace

void addPhase(OpPassManager &manager, Phase phase, const PipelineOptions &options) {
  switch (phase) {
  case Phase::Parse:
    return;
  case Phase::Bind:
    addBind(manager, options);
    break;
  case Phase::Flatten:
    addFlatten(manager);
    break;
  case Phase::Differentiate:
    addDifferentiate(manager);
    break;
  case Phase::Precision:
    manager.addPass(createChoosePrecision({options.precision}));
    break;
  case Phase::SaveOrRecompute:
    // Before fusion: what is computed again is chosen among single ops, and fuse-experts then takes the
    // copies along.
    manager.addPass(createSaveOrRecompute({options.saveBudget}));
    break;
  case Phase::LowerMasks:
    manager.addPass(createLowerMasks(options.breakEven, options.cuda));
    // The choice of kernels says whose zeros nobody reads.
    if (options.storeKept)
      manager.addPass(createStoreKept());
    break;
  case Phase::FuseExperts:
    // Before form-kernels, which would otherwise take swiglu and its adjoint into elementwise kernels.
    manager.addPass(createFuseExperts());
    break;
  case Phase::FormKernels:
    addFormKernelsPasses(manager);
    break;
  case Phase::Plan:
    addPlanPasses(manager);
    break;
  }
  manager.addPass(createVerifyPhase({phaseName(phase).str()}));
}

void buildPipeline(OpPassManager &manager, Phase to, const PipelineOptions &options) {
  for (const PhaseInfo &info : phases())
    if (info.phase <= to)
      addPhase(manager, info.phase, options);
}

void registerPipelines() {
  static PassPipelineRegistration<ToPhaseOptions> toPhase(
      "sluice-to-phase", "All phases up to the one named, each with its verifier",
      [](OpPassManager &manager, const ToPhaseOptions &options) {
        std::optional<Phase> phase = phaseByName(options.phase);
        if (!phase)
          llvm::report_fatal_error(llvm::Twine("no phase is called '") + options.phase + "'",
                                   /*gen_crash_diag=*/false);
        PipelineOptions chosen;
        chosen.bindings = options.bindings;
        chosen.precision = options.precision;
        chosen.saveBudget = options.budget;
        buildPipeline(manager, *phase, chosen);
      });
}

} // namespace sluice
