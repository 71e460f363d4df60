// RUN: sluice-opt %s --sluice-to-phase="phase=differentiate" | FileCheck %s

// A tied table: the embedding and the head both add to one gradient state. The auxiliary loss enters with weight * tokens.
// CHECK: sluice.state @embed : {{.*}} role "parameter" of "embed"
// CHECK: sluice.state @embed.gradient : {{.*}} init #sluice.fill<0.000000e+00 : f64> role "gradient" of "embed"
// CHECK: sluice.state @embed.exp_avg :
// CHECK: sluice.state @embed.exp_avg_sq :

// CHECK: sluice.graph @accumulate(%[[TOKENS:.*]]: tensor<2x3xi32>, %[[TARGETS:.*]]: tensor<2x3xi32>)
// CHECK: %[[TABLE:.*]] = sluice.read @embed
// CHECK: %[[X:.*]], %{{.*}} = sluice.rms_norm
// CHECK: %[[LOGITS:.*]] = sluice.linear %[[X]], %[[TABLE]]
// CHECK: %[[LOSS:.*]] = sluice.cross_entropy
// CHECK: %[[COUNT:.*]] = sluice.count_targets
// CHECK-DAG: %[[ONE:.*]] = sluice.constant {shape = array<i64>, sluice.origin = #sluice.origin<"", -1, "loss", "backward">, value = 1.000000e+00 : f64}
// CHECK-DAG: %[[SEED:.*]] = sluice.scale %[[COUNT]] {factor = 1.000000e-03 : f64, sluice.origin = #sluice.origin<"", -1, "loss", "backward">}
// CHECK: sluice.cross_entropy_gradient %[[LOGITS]], %[[TARGETS]], %[[ONE]] {{.*}}#sluice.origin<"head", -1, "head", "backward">
// CHECK: sluice.router_z_gradient %{{.*}}, %[[TARGETS]], %[[SEED]]
// CHECK: sluice.accumulate @embed.gradient, {{.*}}#sluice.origin<"head", -1, "head", "backward">
// CHECK: %[[D:.*]] = sluice.embedding_gradient %[[TOKENS]], {{.*}}#sluice.origin<"", -1, "", "backward">
// CHECK: sluice.accumulate @embed.gradient, %[[D]]
// CHECK: sluice.return %[[LOSS]], %[[COUNT]], %{{.*}} ["loss_sum", "tokens", "auxiliary/router_z"]

// CHECK: sluice.graph @logits(%{{.*}}: tensor<2x3xi32>)
// CHECK: ["logits"]

// CHECK: sluice.graph @eval
// CHECK-NOT: router_z
// CHECK: ["loss_sum", "tokens"]

// Decay is on for the matrix, off for the gain.
// CHECK: sluice.graph @apply(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>) attributes {input_names = ["learning_rate", "step", "tokens"]}
// CHECK: %[[G0:.*]] = sluice.read @embed.gradient
// CHECK: %[[G1:.*]] = sluice.read @gain.gradient
// CHECK: %[[NORM:.*]] = sluice.global_norm %[[G0]], %[[G1]]
// CHECK: sluice.adamw {{.*}}beta1 = 8.000000e-01 : f64{{.*}}weight_decay = 2.000000e-01 : f64
// CHECK: sluice.write @embed,
// CHECK: sluice.write @embed.exp_avg,
// CHECK: sluice.write @embed.exp_avg_sq,
// CHECK: sluice.write @embed.gradient,
// CHECK: sluice.adamw {{.*}}weight_decay = 0.000000e+00 : f64
// CHECK: sluice.return %[[NORM]] ["gradient_norm"]

// CHECK: sluice.graph @init(%[[S:.*]]: tensor<1xi64>) attributes {input_names = ["seed"]}
// CHECK: %[[DRAWS:.*]] = sluice.random_normal %[[S]] {{.*}}stream = "embed"
// CHECK: sluice.write @embed, %[[DRAWS]]
// CHECK: sluice.write @gain,
// CHECK: sluice.write @embed.gradient,
// CHECK: sluice.write @gain.exp_avg_sq,
module attributes {sluice.training = {optimizer = {kind = "adamw", beta1 = 0.8 : f64, weight_decay = 0.2 : f64}}} {
  sluice.graph @tied(%tokens: tensor<2x3xi32>, %targets: tensor<2x3xi32>) {
    %table = sluice.param "embed" init #sluice.normal<0.02 : f64> role "embedding" : tensor<7x4xf32>
    %e = sluice.embedding %tokens, %table : (tensor<2x3xi32>, tensor<7x4xf32>) -> tensor<2x3x4xf32>
    %g = sluice.param "gain" init #sluice.fill<1.0 : f64> role "norm" : tensor<4xf32>
    %x:2 = sluice.rms_norm %e, %g {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>)
    %logits, %loss = sluice.scope "head" role "head" -> tensor<2x3x7xf32>, tensor<f32> {
      %z = sluice.linear %x#0, %table : (tensor<2x3x4xf32>, tensor<7x4xf32>) -> tensor<2x3x7xf32>
      %aux = sluice.router_z %z, %targets : (tensor<2x3x7xf32>, tensor<2x3xi32>) -> tensor<f32>
      sluice.auxiliary_loss "router_z" %aux weight 0.001 : tensor<f32>
      %l = sluice.cross_entropy %z, %targets : (tensor<2x3x7xf32>, tensor<2x3xi32>) -> tensor<f32>
      sluice.yield %z, %l : tensor<2x3x7xf32>, tensor<f32>
    }
    sluice.return %logits, %loss ["logits", "loss_sum"] : tensor<2x3x7xf32>, tensor<f32>
  }
}
