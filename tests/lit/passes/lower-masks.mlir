// RUN: sluice-opt %s --sluice-lower-masks --verify-diagnostics
sluice.graph @model(%x: tensor<3x2xf32>, %w: tensor<2x2xf32>, %m: !sluice.mask<[2, 2], "unstructured">) {
  // expected-error @below {{sluice.linear in 'layers.0.mlp' has a mask; masked products have no kernels yet, leave the mask out}}
  %y = sluice.linear %x, %w mask %m {sluice.origin = #sluice.origin<"layers.0.mlp", 0, "mlp", "forward">} : (tensor<3x2xf32>, tensor<2x2xf32>, !sluice.mask<[2, 2], "unstructured">) -> tensor<3x2xf32>
  sluice.return %y ["y"] : tensor<3x2xf32>
}
