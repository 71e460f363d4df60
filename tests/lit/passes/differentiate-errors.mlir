// RUN: not sluice-opt %s --sluice-differentiate --split-input-file 2>&1 | FileCheck %s
#o = #sluice.origin<"layers.0.attn", 0, "attention", "forward">
#m = #sluice.origin<"layers.1.mlp", 1, "mlp", "forward">

// Every op without an adjoint is listed in one report.
// CHECK: error: 2 ops lie between the parameters and the objective but cannot be differentiated:
// CHECK-NEXT: sluice.embedding_gradient in 'layers.0.attn' (attention)
// CHECK-NEXT: sluice.gather_gradient in 'layers.1.mlp' (mlp)
// CHECK: note: sluice.gather_gradient is here
// CHECK: error: differentiate needs a graph @model with inputs tokens and targets and the output 'loss_sum'
sluice.state @w : tensor<1x3x3xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0 {sluice.origin = #o}
sluice.graph @model(%tokens: tensor<1x3xi32>, %targets: tensor<1x3xi32>) {
  %w = sluice.read @w {sluice.origin = #o} : tensor<1x3x3xf32>
  %a = sluice.embedding_gradient %tokens, %w {vocabulary = 3 : i64, sluice.origin = #o} : (tensor<1x3xi32>, tensor<1x3x3xf32>) -> tensor<3x3xf32>
  %ids = sluice.reshape %tokens {shape = array<i64: 3>, sluice.origin = #o} : (tensor<1x3xi32>) -> tensor<3xi32>
  %b = sluice.gather_gradient %ids, %a {rows = 3 : i64, sluice.origin = #m} : (tensor<3xi32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %l = sluice.reshape %b {shape = array<i64: 1, 3, 3>, sluice.origin = #o} : (tensor<3x3xf32>) -> tensor<1x3x3xf32>
  %loss = sluice.cross_entropy %l, %targets {sluice.origin = #o} : (tensor<1x3x3xf32>, tensor<1x3xi32>) -> tensor<f32>
  %n = sluice.count_targets %targets {sluice.origin = #o} : (tensor<1x3xi32>) -> tensor<f32>
  sluice.return %loss, %n ["loss_sum", "tokens"] {sluice.origin = #o} : tensor<f32>, tensor<f32>
}

// -----

module {
  sluice.graph @model(%x: tensor<2xf32>) {
    sluice.return %x ["x"] : tensor<2xf32>
  }
}
