// RUN: sluice-opt %s --sluice-lower-masks --verify-diagnostics | FileCheck %s
!m = !sluice.mask<[2, 4], kept = 2, "unstructured">
!dense = !sluice.mask<[2, 4], kept = 3, "unstructured">
// CHECK: sluice.linear
// CHECK-SAME: sluice.skip_zeros
// CHECK: sluice.linear
// CHECK-NOT: sluice.skip_zeros
sluice.graph @model(%x: tensor<3x4xf32>, %w: tensor<2x4xf32>, %m: !m, %d: !dense) {
  // expected-remark @below {{sluice.linear in 'layers.0.mlp': skips zeros, keeps 25.0 % of its weights}}
  %y = sluice.linear %x, %w mask %m {sluice.origin = #sluice.origin<"layers.0.mlp", 0, "mlp", "forward">} : (tensor<3x4xf32>, tensor<2x4xf32>, !m) -> tensor<3x2xf32>
  // expected-remark @below {{sluice.linear in 'layers.1.mlp': masked dense, keeps 37.5 % of its weights; zeros are multiplied, skipping them pays at 25 % or less}}
  %z = sluice.linear %x, %w mask %d {sluice.origin = #sluice.origin<"layers.1.mlp", 1, "mlp", "forward">} : (tensor<3x4xf32>, tensor<2x4xf32>, !dense) -> tensor<3x2xf32>
  sluice.return %y, %z ["y", "z"] : tensor<3x2xf32>, tensor<3x2xf32>
}
