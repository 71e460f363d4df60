// RUN: sluice-opt %s --split-input-file --sluice-lower-masks --verify-diagnostics | FileCheck %s
!m = !sluice.mask<[2, 4], kept = 2, "unstructured">
!dense = !sluice.mask<[2, 4], kept = 3, "unstructured">
// CHECK: sluice.linear
// CHECK-SAME: sluice.skip_at_most = 2
// CHECK: sluice.linear
// CHECK-SAME: sluice.skip_at_most = 0
sluice.graph @model(%x: tensor<3x4xf32>, %w: tensor<2x4xf32>, %m: !m, %d: !dense) {
  // expected-remark @below {{masked product y = x w^T in 'layers.0.mlp': skips zeros, keeps 25.0 % of its weights (break-even 25.0 %, assumed)}}
  %y = sluice.linear %x, %w mask %m {sluice.origin = #sluice.origin<"layers.0.mlp", 0, "mlp", "forward">} : (tensor<3x4xf32>, tensor<2x4xf32>, !m) -> tensor<3x2xf32>
  // expected-remark @below {{masked product y = x w^T in 'layers.1.mlp': masked dense, keeps 37.5 % of its weights (break-even 25.0 %, assumed)}}
  %z = sluice.linear %x, %w mask %d {sluice.origin = #sluice.origin<"layers.1.mlp", 1, "mlp", "forward">} : (tensor<3x4xf32>, tensor<2x4xf32>, !dense) -> tensor<3x2xf32>
  sluice.return %y, %z ["y", "z"] : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Gradual pruning from everything to 2 of 8 crosses a given break-even of half of the weights.
!m = !sluice.mask<[2, 4], kept = 8, "unstructured">
module attributes {sluice.training = {sparsity = {break_even = 5.000000e+01 : f64}}} {
  sluice.state @w : tensor<2x4xf32> init #sluice.fill<1.000000e+00> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0
  sluice.state @w.mask : !m init #sluice.random_mask role "mask" of "w" kind "mlp" checkpoint "w.mask" decay false experts 0 active 0 {sluice.target = 2 : i64}
  // CHECK: sluice.linear
  // CHECK-SAME: sluice.skip_at_most = 4
  // CHECK: sluice.masked_weight_gradient
  // CHECK-SAME: sluice.skip_at_most = 4
  sluice.graph @model(%x: tensor<3x4xf32>, %dy: tensor<3x2xf32>) {
    %w = sluice.read @w : tensor<2x4xf32>
    %m = sluice.read @w.mask : !m
    // expected-remark @below {{masked product y = x w^T of 'w': masked dense from 100.0 %, skips zeros once at most 50.0 % are kept, ends at 25.0 % of its weights (break-even 50.0 %, given)}}
    %y = sluice.linear %x, %w mask %m {sluice.origin = #sluice.origin<"mlp", 0, "mlp", "forward">} : (tensor<3x4xf32>, tensor<2x4xf32>, !m) -> tensor<3x2xf32>
    // expected-remark @below {{masked product dw = dy^T x of 'w': masked dense from 100.0 %, skips zeros once at most 50.0 % are kept}}
    %dw = sluice.masked_weight_gradient %dy, %x, %m {sluice.origin = #sluice.origin<"mlp", 0, "mlp", "backward">} : (tensor<3x2xf32>, tensor<3x4xf32>, !m) -> tensor<2x4xf32>
    sluice.return %y, %dw ["y", "dw"] : tensor<3x2xf32>, tensor<2x4xf32>
  }
}
