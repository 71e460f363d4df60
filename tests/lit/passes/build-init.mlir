// RUN: sluice-opt %s --sluice-build-init | FileCheck %s

#o = #sluice.origin<"layers.0", 0, "mlp", "forward">

// Draws are keyed by the parameter's name, everything else is filled; each op says which tensor it initializes.
// CHECK-LABEL: sluice.graph @init(
// CHECK-SAME: %[[SEED:.*]]: tensor<1xi64>) attributes {input_names = ["seed"]}
// CHECK-NEXT: %[[W:.*]] = sluice.random_normal %[[SEED]] {sluice.origin = #sluice.origin<"layers.0.w", 0, "mlp", "initialize">, standard_deviation = 2.500000e-01 : f64, stream = "layers.0.w", type = tensor<2x3xf32>}
// CHECK-NEXT: sluice.write @layers.0.w, %[[W]] {sluice.origin = #sluice.origin<"layers.0.w", 0, "mlp", "initialize">}
// CHECK-NEXT: %[[G:.*]] = sluice.constant {shape = array<i64: 2, 3>, sluice.origin = #sluice.origin<"layers.0.w.gradient", 0, "mlp", "initialize">, value = 1.500000e+00 : f64}
// CHECK-NEXT: sluice.write @layers.0.w.gradient, %[[G]]
// CHECK-NEXT: sluice.return []
sluice.state @layers.0.w : tensor<2x3xf32> init #sluice.normal<0.25 : f64> role "parameter" of "layers.0.w" kind "mlp" checkpoint "w" decay true experts 0 active 0 {sluice.origin = #o}
sluice.state @layers.0.w.gradient : tensor<2x3xf32> init #sluice.fill<1.5 : f64> role "gradient" of "layers.0.w" kind "mlp" checkpoint "w.gradient" decay true experts 0 active 0 {sluice.origin = #o}
sluice.graph @accumulate(%x: tensor<f32>) {
  sluice.return %x ["loss_sum"] : tensor<f32>
}
