// All passes, phase by phase, in the order in which the pipeline runs them (Pipeline.cpp says why in that order).
#ifndef SLUICE_PASSES_TD
#define SLUICE_PASSES_TD

include "mlir/Pass/PassBase.td"

class Sluice_Pass<string name> : Pass<"sluice-" # name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::sluice::SluiceDialect"];
}

// ---------------------------------------------------------------------------------------------------------------
// All phases
// ---------------------------------------------------------------------------------------------------------------

def VerifyPhase : Sluice_Pass<"verify-phase"> {
  let summary = "Check what must no longer occur after a phase";
  let description = "The rules are one table in VerifyPhase.cpp. Each phase of the pipeline ends with this pass.";
  let options = [Option<"phase", "phase", "std::string", "\"bind\"", "The phase that has just ended">];
}

// ---------------------------------------------------------------------------------------------------------------
// bind
// ---------------------------------------------------------------------------------------------------------------

def SplitLogits : Sluice_Pass<"split-logits"> {
  let summary = "Clone the model as @logits, which returns logits only";
  let description = [{
    The module's one graph is renamed @model. The clone is marked for a batch of 1 and loses losses and observations:
    it serves generation, where sequences come one by one.
  }];
}

def BindDimensions : Sluice_Pass<"bind-dimensions"> {
  let summary = "Replace dimension names by numbers";
  let description = [{
    Types become static and lose their encodings; each op's inferred types must agree. The bindings stay on the module
    as `sluice.bindings`. A name without a number, or a number without a name, is an error that lists the known names.
  }];
  let options = [Option<"bindings", "bindings", "std::string", "\"\"", "Sizes, e.g. batch=8,seq=256">];
}

// ---------------------------------------------------------------------------------------------------------------
// flatten
// ---------------------------------------------------------------------------------------------------------------

def UnrollRepeats : Sluice_Pass<"unroll-repeats"> {
  let summary = "Replace each repeat by one scope an iteration";
  let description = "The scope is called `<name>.<iteration>` and carries the number as `sluice.layer`.";
}

def OpenExperts : Sluice_Pass<"open-experts"> {
  let summary = "Turn a network for one expert into ops over all experts' rows";
  let description = [{
    Parameters inside are stacked to [experts, ...]; a `linear` by such a parameter becomes `grouped_linear`; elementwise
    and row-wise ops stay as they are, since rows are independent.
  }];
}

def DissolveScopes : Sluice_Pass<"dissolve-scopes"> {
  let summary = "Move scope paths into origins and parameters into module-level state";
  let description = "Every op gets `sluice.origin`. Graphs share the states of parameters of equal name.";
}

def CollectLosses : Sluice_Pass<"collect-losses"> {
  let summary = "Make auxiliary losses and observations outputs of the graph";
  let description = [{
    Outputs `auxiliary/<name>` (the sum over layers, in layer order), `<observation>/<path>` and `tokens` are added; weights of
    the auxiliary losses go to the module's `sluice.auxiliary_weights`. Ops and states that nothing reads are dropped.
  }];
}

// ---------------------------------------------------------------------------------------------------------------
// differentiate
// ---------------------------------------------------------------------------------------------------------------

def BuildEval : Sluice_Pass<"build-eval"> {
  let summary = "Clone @model as @eval: losses and observations without gradients";
}

def Differentiate : Sluice_Pass<"differentiate"> {
  let summary = "Extend @model by its backward and rename it @accumulate";
  let description = [{
    The objective is loss_sum + sum over auxiliary losses of weight * tokens * loss. Two reachability sweeps find the ops
    between parameters and objective; a reverse walk asks each for its adjoint and sums cotangents at fan-in; those of
    parameters are added to `<parameter>.gradient` states. Ops without an adjoint are listed in one report, and an
    adjoint that reads a value it did not declare is an error.
  }];
}

def BuildApply : Sluice_Pass<"build-apply"> {
  let summary = "Build @apply: clipping by the global norm and one AdamW update of every parameter";
  let description = "Settings come from the module's `sluice.training`; they are constants of the program.";
}

def BuildTopology : Sluice_Pass<"build-topology"> {
  let summary = "Build @update_topology where masks move and, where they grow by gradient, @accumulate_dense";
  let description = [{
    What moves a mask and how comes from `sparsity` in the module's `sluice.training`. @accumulate_dense is @accumulate
    with the whole gradients of masked parameters in `<parameter>.dense_gradient` beside those of kept weights.
  }];
}

def BuildInit : Sluice_Pass<"build-init"> {
  let summary = "Build @init: initial values of every state";
}

// ---------------------------------------------------------------------------------------------------------------
// precision, save-or-recompute, lower-masks
// ---------------------------------------------------------------------------------------------------------------

def ChoosePrecision : Sluice_Pass<"choose-precision"> {
  let summary = "Choose the number format of compute; float32 so far";
  let options = [Option<"precision", "precision", "std::string", "\"float32\"", "float32">];
}

def SaveOrRecompute : Sluice_Pass<"save-or-recompute"> {
  let summary = "Decide which forward values live to the backward";
  let description = [{
    Views are computed again next to their use unless that keeps a larger value alive. With a budget, cheap ops are
    computed again too, those that free the most bytes first, until the saved values fit. Remarks list the decisions.
  }];
  let options = [Option<"budget", "budget", "int64_t", "0", "Bytes for saved values; 0: no limit">];
}

def LowerMasks : Sluice_Pass<"lower-masks"> {
  let summary = "Choose by which kernel each masked product runs: one that skips zeros, or masked dense";
  let description = [{
    Each masked product gets `sluice.skip_at_most`: the number of kept weights of a matrix up to which its kernel skips
    zeros, 0 for never. It follows from a break-even in percent: `sparsity.break_even` of the training section, else
    what the pipeline's source measured for the matrix and product on this machine, else an assumed one. Where pruning
    crosses it, the command carries both kernels. CUDA's library needs no choice: products under a mask of blocks run
    over its kept blocks where its tiles fit into them, all others densely; with `cuda` the remarks say which.
  }];
  let options = [Option<"cuda", "cuda", "bool", "false", "Say in the remarks what CUDA's library does">];
}

def StoreKept : Sluice_Pass<"store-kept"> {
  let summary = "Keep of a masked parameter only the kept weights where every product skips zeros";
  let description = [{
    The parameter, its gradient, its moments and its age become tensors in kept form ([kept] instead of [out, in]), and
    the products, the optimizer and the update of the mask read and write that form. It needs a mask of one matrix
    whose number of kept weights never changes. Files hold whole tensors all the same: the session converts.
  }];
}

// ---------------------------------------------------------------------------------------------------------------
// fuse-experts
// ---------------------------------------------------------------------------------------------------------------

def FuseExperts : Sluice_Pass<"fuse-experts"> {
  let summary = "Outline the experts' chains as the library's grouped kernels";
  let description = [{
    Forward: `experts_up` (gather, gate, up, swiglu) and `experts_down` (down, weighted combine). Backward:
    `experts_down_gradient`, `experts_down_weight_gradient`, `experts_up_gradient`, `experts_up_weight_gradient`
    (docs/commands.md). Chains of another form stay as single library ops, and a remark says why.
  }];
}

// ---------------------------------------------------------------------------------------------------------------
// form-kernels
// ---------------------------------------------------------------------------------------------------------------

def FuseCrossEntropy : Sluice_Pass<"fuse-cross-entropy"> {
  let summary = "Outline the output projection and its loss as one kernel that never holds all logits";
  let description = [{
    `linear` and `cross_entropy`, with `cross_entropy_gradient` and the two products of its result where they exist,
    become `linear_cross_entropy` or `linear_cross_entropy_gradient` (docs/commands.md). Logits that something else
    reads stay, and a remark says so.
  }];
}

def DecomposeOps : Sluice_Pass<"decompose-ops"> {
  let summary = "Replace ops that no library command computes by primitives";
  let description = [{
    Sums are split into sums over the last axis and sums over all leading axes, the two that kernels compute. A gradient
    sum is split over its terms; a term that its producing command cannot add to the state becomes read, add, write.
  }];
}

def FormKernels : Sluice_Pass<"form-kernels"> {
  let summary = "Outline elementwise and reduction regions as `rows` and `columns` kernels";
  let description = [{
    Greedy, in program order: an op joins the kernel of a producer that works on the same rows, unless a path through
    other ops forbids it. Forward and backward are kept apart, or saved and recomputed values would merge again. Cheap
    elementwise values that only other kernels read are computed there again instead of being stored.
  }];
}

def CheckLowering : Sluice_Pass<"check-lowering"> {
  let summary = "List all ops that reach the device neither as a command nor inside a kernel";
  let options = [Option<"device", "device", "std::string", "\"cpu\"", "Named in the report">];
}

// ---------------------------------------------------------------------------------------------------------------
// plan
// ---------------------------------------------------------------------------------------------------------------

def FormCommands : Sluice_Pass<"form-commands"> {
  let summary = "Turn each op of an entry point into a command, in order, with its dependencies";
  let description = [{
    Writes and gradient sums fold into the command that computes the value. Reads and reshapes stay as ops: they name
    memory that exists. `apply` and `init` end with `refresh_derived_state`.
  }];
  let dependentDialects = ["::sluice::SluiceDialect", "::sluice::plan::PlanDialect"];
}

def AssignSlots : Sluice_Pass<"assign-slots"> {
  let summary = "Give every value a place in an arena";
  let description = [{
    Parameters, gradients and moments in name order; inputs and outputs in `io`; everything else by best fit over its
    lifetime in one `activations` arena, which the entry points share since only one runs at a time. Offsets are
    multiples of 64. An elementwise command may write over an operand that dies with it.
  }];
  let dependentDialects = ["::sluice::SluiceDialect", "::sluice::plan::PlanDialect"];
}

def VerifyPlan : Sluice_Pass<"verify-plan"> {
  let summary = "Check that no command overwrites a value that is still needed";
  let dependentDialects = ["::sluice::SluiceDialect", "::sluice::plan::PlanDialect"];
}

#endif // SLUICE_PASSES_TD
