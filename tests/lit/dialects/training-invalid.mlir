// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of initial values and the optimizer, broken once.

sluice.graph @g(%seed: tensor<1xi64>) {
  // expected-error @+2 {{'sluice.random_normal' op type must be a static tensor, found 'tensor<?xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %w = sluice.random_normal %seed {stream = "w", standard_deviation = 0.02 : f64, type = tensor<?xf32>} : (tensor<1xi64>) -> tensor<?xf32>
  sluice.return []
}

// -----

sluice.graph @g(%seed: tensor<1xi64>) {
  // expected-error @+1 {{'sluice.random_normal' op result #0 must be ranked tensor of floats, but got 'tensor<2xi32>'}}
  %w = sluice.random_normal %seed {stream = "w", standard_deviation = 0.02 : f64, type = tensor<2xi32>} : (tensor<1xi64>) -> tensor<2xi32>
  sluice.return []
}

// -----

sluice.graph @g(%seed: tensor<2xi64>) {
  // expected-error @+1 {{'sluice.random_normal' op seed must be one 64-bit integer, found 'tensor<2xi64>'}}
  %w = sluice.random_normal %seed {stream = "w", standard_deviation = 0.02 : f64, type = tensor<2xf32>} : (tensor<2xi64>) -> tensor<2xf32>
  sluice.return []
}

// -----

sluice.graph @g(%seed: tensor<1xi64>) {
  // expected-error @+1 {{'sluice.random_normal' op standard_deviation must not be negative, found -5.000000e-01}}
  %w = sluice.random_normal %seed {stream = "w", standard_deviation = -0.5 : f64, type = tensor<2xf32>} : (tensor<1xi64>) -> tensor<2xf32>
  sluice.return []
}

// -----

sluice.graph @g() {
  // expected-error @+1 {{'sluice.global_norm' op needs at least one gradient}}
  %n = sluice.global_norm : () -> tensor<f32>
  sluice.return []
}

// -----

!w = tensor<2x3xf32>
!f = tensor<f32>
sluice.graph @g(%w: !w, %m: tensor<3x2xf32>, %f: !f) {
  // expected-error @+1 {{'sluice.adamw' op at 'w': exp_avg_sq must be [2, 3] (the parameter's shape), found [3, 2]}}
  %a, %b, %c, %d = sluice.adamw %w, %w, %m, %w, %f, %f, %f, %f {sluice.origin = #sluice.origin<"w", -1, "optimizer", "update">, beta1 = 0.9 : f64, beta2 = 0.75 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.1 : f64, clip = 1.0 : f64} : (!w, !w, tensor<3x2xf32>, !w, !f, !f, !f, !f) -> (!w, !w, tensor<3x2xf32>, !w)
  sluice.return []
}

// -----

!w = tensor<2x3xf32>
!f = tensor<f32>
sluice.graph @g(%w: !w, %f: !f) {
  // expected-error @+1 {{'sluice.adamw' op step must be [] (one number), found [2, 3]}}
  %a, %b, %c, %d = sluice.adamw %w, %w, %w, %w, %f, %w, %f, %f {beta1 = 0.9 : f64, beta2 = 0.75 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.1 : f64, clip = 1.0 : f64} : (!w, !w, !w, !w, !f, !w, !f, !f) -> (!w, !w, !w, !w)
  sluice.return []
}
