// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=save-or-recompute bindings=batch=2,seq=3" | FileCheck %s --check-prefix=ALL
// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=save-or-recompute bindings=batch=2,seq=3 budget=1" | FileCheck %s --check-prefix=TIGHT
// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=save-or-recompute bindings=batch=2,seq=3 budget=1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Without a budget only views are computed again: dispatched rows, which are top_k copies of what is saved anyway.
// ALL: sluice.graph @accumulate
// ALL: sluice.embedding
// ALL-NOT: "recompute"
// ALL: sluice.cross_entropy_gradient
// ALL-COUNT-2: sluice.dispatch {{.*}}, "recompute">
// ALL-NOT: sluice.swiglu {{.*}}, "recompute">
// ALL: sluice.graph @logits

// A budget that nothing meets: norms and activations too; never what decides (route) and never products.
// TIGHT: sluice.graph @accumulate
// TIGHT: sluice.cross_entropy_gradient
// TIGHT-DAG: sluice.swiglu {{.*}}, "recompute">
// TIGHT-DAG: sluice.rms_norm {{.*}}, "recompute">
// TIGHT-NOT: sluice.route {{.*}}, "recompute">
// TIGHT-NOT: linear {{.*}}, "recompute">
// TIGHT: sluice.graph @logits

// REMARK-DAG: computed again: sluice.dispatch in 'layers.0.moe.experts', a view, frees
// REMARK-DAG: computed again: sluice.swiglu in 'layers.0.moe.experts', cheap, frees 240 bytes
// REMARK-DAG: saved for the backward:
// REMARK-DAG: more than the budget of 1; the rest is costly or must not be computed again
