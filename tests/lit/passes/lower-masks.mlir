// RUN: sluice-opt %s --sluice-lower-masks --verify-diagnostics
!m = !sluice.mask<[2, 4], kept = 2, "unstructured">
sluice.graph @model(%x: tensor<3x4xf32>, %w: tensor<2x4xf32>, %m: !m) {
  // expected-remark @below {{sluice.linear in 'layers.0.mlp': masked dense, keeps 25.0 % of its weights; zeros are multiplied, no kernel skips them yet}}
  %y = sluice.linear %x, %w mask %m {sluice.origin = #sluice.origin<"layers.0.mlp", 0, "mlp", "forward">} : (tensor<3x4xf32>, tensor<2x4xf32>, !m) -> tensor<3x2xf32>
  sluice.return %y ["y"] : tensor<3x2xf32>
}
