// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Masks and their ops survive printing and parsing.
!m = !sluice.mask<[4, 8], kept = 12, "unstructured">
!e = !sluice.mask<[3, 4, 8], kept = 16, "2:4">
!b = !sluice.mask<[4, 8], kept = 16, "block:2x4">
!t = tensor<4x8xf32>

// CHECK-LABEL: sluice.graph @g
sluice.graph @g(%seed: tensor<1xi64>, %x: tensor<2x5x8xf32>, %dy: tensor<2x5x4xf32>, %e: !e, %b: !b) {
  %w = sluice.param "w" init #sluice.normal<0.02> role "mlp" : !t
  // CHECK: sluice.param_mask "w" : <[4, 8], kept = 12, "unstructured">
  %own = sluice.param_mask "w" : !m
  // CHECK: sluice.random_mask
  %m = sluice.random_mask %seed {stream = "w.mask", type = !m} : (tensor<1xi64>) -> !m
  // CHECK: sluice.apply_mask
  %a = sluice.apply_mask %w, %m : (!t, !m) -> !t
  // CHECK: sluice.linear {{.*}} mask
  %y = sluice.linear %x, %a mask %own : (tensor<2x5x8xf32>, !t, !m) -> tensor<2x5x4xf32>
  // CHECK: sluice.masked_input_gradient
  %dx = sluice.masked_input_gradient %dy, %w, %own : (tensor<2x5x4xf32>, !t, !m) -> tensor<2x5x8xf32>
  // CHECK: sluice.masked_weight_gradient
  %dw = sluice.masked_weight_gradient %dy, %x, %own : (tensor<2x5x4xf32>, tensor<2x5x8xf32>, !m) -> !t
  sluice.return %y, %dx, %dw ["y", "dx", "dw"] : tensor<2x5x4xf32>, tensor<2x5x8xf32>, !t
}

// CHECK-LABEL: sluice.graph @update
sluice.graph @update(%m: !m, %w: !t, %v: !t, %s: tensor<f32>, %i: tensor<1xi64>) {
  // CHECK: sluice.masked_adamw
  %w1, %v1, %q1, %g1 = sluice.masked_adamw %w, %v, %v, %v, %m, %s, %s, %s, %s {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 1.0 : f64, ramp = 0.0 : f64} : (!t, !t, !t, !t, !m, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (!t, !t, !t, !t)
  // CHECK: sluice.masked_adamw
  %w2, %v2, %q2, %g2, %age2 = sluice.masked_adamw %w, %v, %v, %v, %m, %s, %s, %s, %s, %v {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 1.0 : f64, ramp = 20.0 : f64} : (!t, !t, !t, !t, !m, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, !t) -> (!t, !t, !t, !t, !t)
  // CHECK: sluice.update_mask {{.*}} at {{.*}} age {{.*}} dense_gradient
  %n:5 = sluice.update_mask %m, %w, %v, %v at %i, %i, %i age %v dense_gradient %v {stream = "w.mask", drop = "magnitude", grow = "gradient", target = 12 : i64, restart = 5.0 : f64} : (!m, !t, !t, !t, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, !t, !t) -> (!m, !t, !t, !t, !t)
  // CHECK: sluice.update_mask
  %p:4 = sluice.update_mask %m, %w, %v, %v at %i, %i, %i {stream = "w.mask", drop = "signed", grow = "random", target = 12 : i64, restart = 0.0 : f64} : (!m, !t, !t, !t, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (!m, !t, !t, !t)
  sluice.return %w1 ["w"] : !t
}
