// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Arenas and commands: what is written is what is printed.

// CHECK: plan.arena @activations 256 lifetime "activations"
plan.arena @activations 256 lifetime "activations"
plan.arena @io 128 lifetime "io"
plan.arena @parameters 64 lifetime "parameters"
// CHECK: sluice.state @w {{.*}} {plan.slot = #plan.slot<"parameters", 0>}
sluice.state @w : tensor<8xf32> init #sluice.fill<1.0 : f64> role "parameter" of "w" kind "norm" checkpoint "w" decay false experts 0 active 0 {plan.slot = #plan.slot<"parameters", 0>}

// CHECK-LABEL: sluice.graph @g(
// CHECK-SAME: plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"activations", 64>]
sluice.graph @g(%x: tensor<8xf32>) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"activations", 64>]} {
  // CHECK: %[[A:.*]]:2 = plan.command 0 "launch" {kernel = "rows_2x4", tiles = 1 : i64} (%{{.*}}, %{{.*}}) from [#plan.slot<"io", 0>, #plan.slot<"io", 0>] to [#plan.slot<"activations", 0>, #plan.slot<"activations", 64>] states [] after [] : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {sluice.origin = #sluice.origin<"layers.0", 0, "mlp", "forward">} (%[[V:.*]]: tensor<8xf32>, %[[U:.*]]: tensor<8xf32>) {
  // CHECK-NEXT: sluice.add %[[V]], %[[U]]
  %a:2 = plan.command 0 "launch" {kernel = "rows_2x4", tiles = 1 : i64} (%x, %x) from [#plan.slot<"io", 0>, #plan.slot<"io", 0>] to [#plan.slot<"activations", 0>, #plan.slot<"activations", 64>] states [] after [] : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {sluice.origin = #sluice.origin<"layers.0", 0, "mlp", "forward">} (%v: tensor<8xf32>, %u: tensor<8xf32>) {
    %s = sluice.add %v, %u : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    sluice.yield %s, %s : tensor<8xf32>, tensor<8xf32>
  }
  // In place: no result, the state's value comes in as the last argument and leaves as the last yield.
  // CHECK: plan.command 1 "gemm" {accumulate = 1 : i64} (%[[A]]#0) from [#plan.slot<"activations", 0>] to [] states [@w] after [0] : (tensor<8xf32>) -> () (%[[V:.*]]: tensor<8xf32>, %[[W:.*]]: tensor<8xf32>) {
  plan.command 1 "gemm" {accumulate = 1 : i64} (%a#0) from [#plan.slot<"activations", 0>] to [] states [@w] after [0] : (tensor<8xf32>) -> () (%v: tensor<8xf32>, %w: tensor<8xf32>) {
    %s = sluice.add %w, %v : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    sluice.yield %s : tensor<8xf32>
  }
  // CHECK: plan.command 2 "refresh_derived_state" {} () from [] to [] states [] after [0, 1] : () -> () () {
  plan.command 2 "refresh_derived_state" {} () from [] to [] states [] after [0, 1] : () -> () () {
    sluice.yield
  }
  sluice.return %a#1 ["y"] : tensor<8xf32>
}
