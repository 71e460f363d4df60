// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=plan bindings=batch=2,seq=3" 2>/dev/null | FileCheck %s

// States in name order, 64-byte aligned: 11x4 floats end at 176, so the next starts at 192.
// CHECK-DAG: plan.arena @parameters 1984 lifetime "parameters"
// CHECK-DAG: plan.arena @gradients 1984 lifetime "gradients"
// CHECK-DAG: plan.arena @optimizer 3968 lifetime "optimizer"
// CHECK-DAG: sluice.state @embed : {{.*}}plan.slot = #plan.slot<"parameters", 0>
// CHECK-DAG: sluice.state @layers.0.moe.experts.w_down : {{.*}}plan.slot = #plan.slot<"parameters", 192>

// CHECK-LABEL: sluice.graph @accumulate
// CHECK-SAME: plan.input_slots = [#plan.slot<"io", {{[0-9]+}}>, #plan.slot<"io", {{[0-9]+}}>]
// CHECK: plan.command 0 "embedding"
// CHECK: plan.command 1 "launch" {columns = 4 : i64, domain = "{{line|rows}}", kernel = "rows_6x4_{{[0-9a-f]+}}", rows = 6 : i64, tiles = 1 : i64}
// CHECK-SAME: after [0]
// The loss goes straight to its output; the weight's gradient is added to its state by the same command.
// CHECK: "linear_cross_entropy_gradient" {accumulate = 1 : i64, ignore_index = -100 : i64}
// CHECK-SAME: to [#plan.slot<"io", {{[0-9]+}}>, #plan.slot<"activations", {{[0-9]+}}>] states [@embed.gradient]
// CHECK-SAME: plan.flops = "1584"
// CHECK: "experts_up_weight_gradient" {accumulate = 1 : i64, top_k = 2 : i64}
// CHECK-SAME: to [] states [@layers.1.moe.experts.w_gate.gradient, @layers.1.moe.experts.w_up.gradient]
// CHECK: "launch" {columns = 4 : i64, domain = "columns", kernel = "columns_6x4_
// CHECK-SAME: to [] states [@layers.1.moe.norm.gradient]
// CHECK-NOT: sluice.accumulate

// AdamW works in place; packed copies are written anew once, at the end.
// CHECK-LABEL: sluice.graph @apply
// CHECK: plan.command 0 "global_norm"
// CHECK: "adamw"
// CHECK-SAME: states [@embed, @embed.exp_avg, @embed.exp_avg_sq, @embed.gradient]
// CHECK: "refresh_derived_state"
// CHECK: sluice.return

// CHECK-LABEL: sluice.graph @init
// CHECK: "random_normal"
// CHECK-SAME: to [] states [@embed]
// CHECK: "refresh_derived_state"
// CHECK-NEXT: sluice.yield
// CHECK-NOT: plan.command
