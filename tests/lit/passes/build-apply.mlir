// RUN: sluice-opt %s --sluice-build-apply --split-input-file --verify-diagnostics | FileCheck %s

#o = #sluice.origin<"", -1, "mlp", "forward">

// Defaults where the training section is silent; a whole number is a number; decay only where the state says so.
// CHECK: sluice.state @w.exp_avg : tensor<2x3xf32> init #sluice.fill<0.000000e+00 : f64> role "exp_avg" of "w" kind "mlp" checkpoint "model.w.exp_avg" decay true
// CHECK: sluice.state @b.exp_avg : tensor<3xf32> {{.*}} decay false
// CHECK: sluice.state @w.exp_avg_sq : tensor<2x3xf32> init #sluice.fill<0.000000e+00 : f64> role "exp_avg_sq" of "w"
// CHECK-LABEL: sluice.graph @apply(
// CHECK-SAME: %[[RATE:.*]]: tensor<f32>, %[[STEP:.*]]: tensor<f32>, %[[TOKENS:.*]]: tensor<f32>) attributes {input_names = ["learning_rate", "step", "tokens"]}
// CHECK-DAG: %[[GW:.*]] = sluice.read @w.gradient
// CHECK-DAG: %[[GB:.*]] = sluice.read @b.gradient
// CHECK: %[[NORM:.*]] = sluice.global_norm %[[GW]], %[[GB]]
// CHECK-DAG: %[[W:.*]] = sluice.read @w {
// CHECK-DAG: %[[M:.*]] = sluice.read @w.exp_avg {
// CHECK-DAG: %[[V:.*]] = sluice.read @w.exp_avg_sq {
// CHECK: %[[NW:.*]], %[[NM:.*]], %[[NV:.*]], %[[NG:.*]] = sluice.adamw %[[W]], %[[M]], %[[V]], %[[GW]], %[[RATE]], %[[STEP]], %[[TOKENS]], %[[NORM]] {beta1 = 9.000000e-01 : f64, beta2 = 0.94999999999999996 : f64, clip = 2.000000e+00 : f64, epsilon = 1.000000e-08 : f64, sluice.origin = #sluice.origin<"w", -1, "optimizer", "update">, weight_decay = 2.500000e-01 : f64}
// CHECK: sluice.write @w, %[[NW]]
// CHECK: sluice.write @w.exp_avg, %[[NM]]
// CHECK: sluice.write @w.exp_avg_sq, %[[NV]]
// CHECK: sluice.write @w.gradient, %[[NG]]
// CHECK: sluice.adamw {{.*}} weight_decay = 0.000000e+00 : f64}
// CHECK: sluice.return %[[NORM]] ["gradient_norm"]
module attributes {sluice.training = {optimizer = {kind = "adamw", clip = 2 : i64, weight_decay = 0.25 : f64}}} {
  sluice.state @w : tensor<2x3xf32> init #sluice.normal<0.02 : f64> role "parameter" of "w" kind "mlp" checkpoint "model.w" decay true experts 0 active 0 {sluice.origin = #o}
  sluice.state @b : tensor<3xf32> init #sluice.fill<0.0 : f64> role "parameter" of "b" kind "bias" checkpoint "model.b" decay false experts 0 active 0 {sluice.origin = #o}
  sluice.state @w.gradient : tensor<2x3xf32> init #sluice.fill<0.0 : f64> role "gradient" of "w" kind "mlp" checkpoint "w.gradient" decay true experts 0 active 0 {sluice.origin = #o}
  sluice.state @b.gradient : tensor<3xf32> init #sluice.fill<0.0 : f64> role "gradient" of "b" kind "bias" checkpoint "b.gradient" decay false experts 0 active 0 {sluice.origin = #o}
  sluice.graph @accumulate(%x: tensor<f32>) {
    sluice.return %x ["loss_sum"] : tensor<f32>
  }
}

// -----

// expected-error @+1 {{optimizer.kind: expected adamw, found 'sgd'}}
module attributes {sluice.training = {optimizer = {kind = "sgd"}}} {
}

// -----

// expected-error @+1 {{optimizer.beta1: expected a number, found "high"}}
module attributes {sluice.training = {optimizer = {beta1 = "high"}}} {
}

// -----

// expected-error @+1 {{the model has no parameter that its outputs depend on: there is nothing to train}}
module {
}
