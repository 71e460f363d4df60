// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Initial values and the optimizer: what is written is what is printed.

// CHECK-LABEL: sluice.graph @update(
sluice.graph @update(%seed: tensor<1xi64>, %rate: tensor<f32>) {
  // CHECK: sluice.random_normal %{{.*}} {standard_deviation = 2.000000e-02 : f64, stream = "embed", type = tensor<2x3xf32>} : (tensor<1xi64>) -> tensor<2x3xf32>
  %w = sluice.random_normal %seed {stream = "embed", standard_deviation = 0.02 : f64, type = tensor<2x3xf32>} : (tensor<1xi64>) -> tensor<2x3xf32>
  // Gradients of different shapes have one norm.
  // CHECK: sluice.global_norm %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  %n = sluice.global_norm %w, %rate : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: sluice.adamw {{.*}} {beta1 = 9.000000e-01 : f64, beta2 = 7.500000e-01 : f64, clip = 1.000000e+00 : f64, epsilon = 1.000000e-08 : f64, weight_decay = 1.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %a, %b, %c, %d = sluice.adamw %w, %w, %w, %w, %rate, %rate, %rate, %n {beta1 = 0.9 : f64, beta2 = 0.75 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.1 : f64, clip = 1.0 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  sluice.return %a ["a"] : tensor<2x3xf32>
}
