// RUN: sluice-opt %s --sluice-build-eval | FileCheck %s

// Validation is cross-entropy only: observations stay, logits, auxiliary losses and what only they need go.
// CHECK-LABEL: sluice.graph @model(
// CHECK: ["logits", "loss_sum", "tokens", "auxiliary/router_z", "routing/layers.0"]
// CHECK-LABEL: sluice.graph @eval(
// CHECK-NEXT: %[[LOSS:.*]] = sluice.cross_entropy
// CHECK-NEXT: %[[COUNT:.*]] = sluice.count_targets
// CHECK-NEXT: sluice.return %[[LOSS]], %[[COUNT]], %{{.*}} ["loss_sum", "tokens", "routing/layers.0"]
sluice.graph @model(%l: tensor<6x3xf32>, %targets: tensor<6xi32>) {
  %c = sluice.cross_entropy %l, %targets : (tensor<6x3xf32>, tensor<6xi32>) -> tensor<f32>
  %n = sluice.count_targets %targets : (tensor<6xi32>) -> tensor<f32>
  %z = sluice.router_z %l, %targets : (tensor<6x3xf32>, tensor<6xi32>) -> tensor<f32>
  sluice.return %l, %c, %n, %z, %l ["logits", "loss_sum", "tokens", "auxiliary/router_z", "routing/layers.0"] : tensor<6x3xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<6x3xf32>
}
