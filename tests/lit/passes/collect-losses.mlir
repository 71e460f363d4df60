// RUN: sluice-opt %s --sluice-collect-losses --split-input-file --verify-diagnostics | FileCheck %s

// Values of one name are summed in layer order; observations carry their path; tokens are counted with the loss's own
// ignore index; what nothing reads is gone, the state of the dead read too.
// CHECK: sluice.auxiliary_weights = {router_z = {{1.*e-03}} : f64}
// CHECK-NOT: @unused
// CHECK: sluice.graph @model
// CHECK: %[[Z0:.*]] = sluice.router_z %{{.*}}#sluice.origin<"layers.0"
// CHECK: %[[Z1:.*]] = sluice.router_z %{{.*}}#sluice.origin<"layers.1"
// CHECK-NOT: sluice.auxiliary_loss
// CHECK-NOT: sluice.observe
// CHECK: %[[LOSS:.*]] = sluice.cross_entropy
// CHECK: %[[N:.*]] = sluice.count_targets %{{.*}} {ignore_index = 7 : i64, sluice.origin = #sluice.origin<"", -1, "loss", "forward">}
// CHECK: %[[SUM:.*]] = sluice.add %[[Z0]], %[[Z1]]
// CHECK: sluice.return %{{.*}}, %[[LOSS]], %[[N]], %[[SUM]], %{{.*}} ["logits", "loss_sum", "tokens", "auxiliary/router_z", "routing/layers.0"]
// expected-remark @below {{parameter 'unused' is not used and was dropped}}
sluice.state @unused : tensor<2xf32> init #sluice.fill<0.0 : f64> role "parameter" of "unused" kind "norm" checkpoint "unused" decay false experts 0 active 0 {sluice.origin = #sluice.origin<"", -1, "norm", "forward">}
sluice.graph @model(%logits: tensor<1x3x4xf32>, %targets: tensor<1x3xi32>) {
  %dead = sluice.read @unused {sluice.origin = #sluice.origin<"", -1, "norm", "forward">} : tensor<2xf32>
  %z0 = sluice.router_z %logits, %targets {ignore_index = 7 : i64, sluice.origin = #sluice.origin<"layers.0", 0, "router", "forward">} : (tensor<1x3x4xf32>, tensor<1x3xi32>) -> tensor<f32>
  sluice.auxiliary_loss "router_z" %z0 weight 0.001 {sluice.origin = #sluice.origin<"layers.0", 0, "router", "forward">} : tensor<f32>
  sluice.observe "routing" %logits {sluice.origin = #sluice.origin<"layers.0", 0, "router", "forward">} : tensor<1x3x4xf32>
  %z1 = sluice.router_z %logits, %targets {ignore_index = 7 : i64, sluice.origin = #sluice.origin<"layers.1", 1, "router", "forward">} : (tensor<1x3x4xf32>, tensor<1x3xi32>) -> tensor<f32>
  sluice.auxiliary_loss "router_z" %z1 weight 0.001 {sluice.origin = #sluice.origin<"layers.1", 1, "router", "forward">} : tensor<f32>
  %loss = sluice.cross_entropy %logits, %targets {ignore_index = 7 : i64, sluice.origin = #sluice.origin<"head", -1, "head", "forward">} : (tensor<1x3x4xf32>, tensor<1x3xi32>) -> tensor<f32>
  sluice.return %logits, %loss ["logits", "loss_sum"] {sluice.origin = #sluice.origin<"", -1, "", "forward">} : tensor<1x3x4xf32>, tensor<f32>
}

// -----

sluice.graph @model(%a: tensor<f32>) {
  sluice.auxiliary_loss "balance" %a weight 0.1 {sluice.origin = #sluice.origin<"layers.0", 0, "router", "forward">} : tensor<f32>
  // expected-error @below {{auxiliary loss 'balance' has weight 2.000000e-01 here and 1.000000e-01 elsewhere; one name has one weight}}
  sluice.auxiliary_loss "balance" %a weight 0.2 {sluice.origin = #sluice.origin<"layers.1", 1, "router", "forward">} : tensor<f32>
  sluice.return %a ["a"] {sluice.origin = #sluice.origin<"", -1, "", "forward">} : tensor<f32>
}

// -----

sluice.graph @model(%a: tensor<f32>) {
  sluice.observe "probe" %a {sluice.origin = #sluice.origin<"layers.0", 0, "router", "forward">} : tensor<f32>
  // expected-error @below {{two observations are called 'probe/layers.0'}}
  sluice.observe "probe" %a {sluice.origin = #sluice.origin<"layers.0", 0, "router", "forward">} : tensor<f32>
  sluice.return %a ["a"] {sluice.origin = #sluice.origin<"", -1, "", "forward">} : tensor<f32>
}
