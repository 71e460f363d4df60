// RUN: sluice-opt %s --sluice-split-logits --split-input-file --verify-diagnostics | FileCheck %s

// The clone keeps what the logits need: no loss, no observation, no targets; *bind* will give it a batch of 1.
// CHECK-LABEL: sluice.graph @model(
// CHECK-SAME: input_names = ["tokens", "targets"]
// CHECK: sluice.cross_entropy
// CHECK: sluice.auxiliary_loss
// CHECK: sluice.observe
// CHECK: sluice.return %{{.*}}, %{{.*}} ["logits", "loss_sum"]
// CHECK-LABEL: sluice.graph @logits(
// CHECK-SAME: %{{.*}}: tensor<?x?xi32, #sluice.dims<batch, seq>>) attributes {input_names = ["tokens"], sluice.fixed_bindings = {batch = 1 : i64}}
// CHECK-NEXT: sluice.param "embed"
// CHECK-NEXT: %[[Y:.*]] = sluice.embedding
// CHECK-NEXT: sluice.return %[[Y]] ["logits"]
!ids = tensor<?x?xi32, #sluice.dims<batch, seq>>
!x = tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
sluice.graph @any(%tokens: !ids, %targets: !ids) {
  %w = sluice.param "embed" init #sluice.normal<0.02 : f64> role "embedding" : tensor<4x4xf32>
  %y = sluice.embedding %tokens, %w : (!ids, tensor<4x4xf32>) -> !x
  %l = sluice.cross_entropy %y, %targets : (!x, !ids) -> tensor<f32>
  %z = sluice.router_z %y, %targets : (!x, !ids) -> tensor<f32>
  sluice.auxiliary_loss "router_z" %z weight 0.001 : tensor<f32>
  sluice.observe "z" %z : tensor<f32>
  sluice.return %y, %l ["logits", "loss_sum"] : !x, tensor<f32>
}

// -----

// A graph without logits has nothing to split off.
// CHECK-LABEL: sluice.graph @model(
// CHECK-NOT: sluice.graph
sluice.graph @any(%x: tensor<f32>) {
  sluice.return %x ["loss_sum"] : tensor<f32>
}

// -----

// expected-error @+1 {{expected one model graph before bind, found 2}}
module {
  sluice.graph @a(%x: tensor<f32>) {
    sluice.return %x ["x"] : tensor<f32>
  }
  sluice.graph @b(%x: tensor<f32>) {
    sluice.return %x ["x"] : tensor<f32>
  }
}
