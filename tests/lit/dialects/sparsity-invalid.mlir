// RUN: sluice-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{a mask of [4, 8] must keep 1 to 32 weights of a matrix, found 33}}
sluice.graph @g(%m: !sluice.mask<[4, 8], kept = 33, "unstructured">) { sluice.return [] }

// -----

// expected-error @+1 {{a mask's shape must be [out, in] or [experts, out, in] of positive sizes, found [8]}}
sluice.graph @g(%m: !sluice.mask<[8], kept = 3, "unstructured">) { sluice.return [] }

// -----

// expected-error @+1 {{n:m needs a multiple of 4 inputs, found 6}}
sluice.graph @g(%m: !sluice.mask<[4, 6], kept = 12, "2:4">) { sluice.return [] }

// -----

// expected-error @+1 {{mask of 4x8 must keep 16 weights, or more of each group of 4 alike, found 12}}
sluice.graph @g(%m: !sluice.mask<[4, 8], kept = 12, "2:4">) { sluice.return [] }

// -----

// expected-error @+1 {{blocks of 3x4 must divide the matrix 4x8}}
sluice.graph @g(%m: !sluice.mask<[4, 8], kept = 12, "block:3x4">) { sluice.return [] }

// -----

// expected-error @+1 {{a mask of blocks of 2x4 must keep a multiple of 8 weights, found 12}}
sluice.graph @g(%m: !sluice.mask<[4, 8], kept = 12, "block:2x4">) { sluice.return [] }

// -----

// expected-error @+1 {{a mask's pattern must be unstructured, n:m with n <= m, or block:RxC, found "random"}}
sluice.graph @g(%m: !sluice.mask<[4, 8], kept = 12, "random">) { sluice.return [] }

// -----

!m = !sluice.mask<[4, 8], kept = 12, "unstructured">
sluice.graph @g(%x: tensor<8x4xf32>, %m: !m) {
  // expected-error @+1 {{mask must have the operand's shape [8, 4], found [4, 8]}}
  %y = sluice.apply_mask %x, %m : (tensor<8x4xf32>, !m) -> tensor<8x4xf32>
  sluice.return %y ["y"] : tensor<8x4xf32>
}

// -----

!m = !sluice.mask<[4, 8], kept = 12, "unstructured">
sluice.graph @g(%seed: tensor<1xi32>) {
  // expected-error @+1 {{seed must be one 64-bit integer, found 'tensor<1xi32>'}}
  %m = sluice.random_mask %seed {stream = "w", type = !m} : (tensor<1xi32>) -> !m
  sluice.return []
}

// -----

!m = !sluice.mask<[4, 8], kept = 12, "unstructured">
sluice.graph @g(%dy: tensor<3x4xf32>, %x: tensor<2x8xf32>, %m: !m) {
  // expected-error @+1 {{dy [3, 4] and x [2, 8] must have the same rows}}
  %dw = sluice.masked_weight_gradient %dy, %x, %m : (tensor<3x4xf32>, tensor<2x8xf32>, !m) -> tensor<4x8xf32>
  sluice.return []
}

// -----

!m = !sluice.mask<[4, 8], kept = 16, "block:2x4">
!t = tensor<4x8xf32>
sluice.graph @g(%m: !m, %w: !t, %i: tensor<1xi64>) {
  // expected-error @+1 {{a block has no sign, found drop signed and the pattern "block:2x4"}}
  %p:4 = sluice.update_mask %m, %w, %w, %w at %i, %i, %i {stream = "w", drop = "signed", grow = "random", target = 16 : i64, restart = 0.0 : f64} : (!m, !t, !t, !t, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (!m, !t, !t, !t)
  sluice.return []
}

// -----

!m = !sluice.mask<[4, 8], kept = 32, "block:2x4">
!t = tensor<4x8xf32>
sluice.graph @g(%m: !m, %w: !t, %i: tensor<1xi64>) {
  // expected-error @+1 {{target must be whole units of the pattern "block:2x4", found 12}}
  %p:4 = sluice.update_mask %m, %w, %w, %w at %i, %i, %i {stream = "w", drop = "magnitude", grow = "none", target = 12 : i64, restart = 0.0 : f64} : (!m, !t, !t, !t, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (!m, !t, !t, !t)
  sluice.return []
}

// -----

!m = !sluice.mask<[4, 8], kept = 32, "unstructured">
!t = tensor<4x8xf32>
sluice.graph @g(%m: !m, %w: !t, %i: tensor<1xi64>) {
  // expected-error @+1 {{without growth drop must be magnitude, found 'soft'}}
  %p:4 = sluice.update_mask %m, %w, %w, %w at %i, %i, %i {stream = "w", drop = "soft", grow = "none", target = 12 : i64, restart = 0.0 : f64} : (!m, !t, !t, !t, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (!m, !t, !t, !t)
  sluice.return []
}

// -----

!m = !sluice.mask<[4, 8], kept = 12, "unstructured">
!t = tensor<4x8xf32>
sluice.graph @g(%m: !m, %w: !t, %i: tensor<1xi64>) {
  // expected-error @+1 {{growth by gradient needs dense_gradient, and no other growth takes it}}
  %p:4 = sluice.update_mask %m, %w, %w, %w at %i, %i, %i {stream = "w", drop = "magnitude", grow = "gradient", target = 12 : i64, restart = 0.0 : f64} : (!m, !t, !t, !t, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (!m, !t, !t, !t)
  sluice.return []
}

// -----

// expected-error @+1 {{'w.mask' must be of mask type if and only if its role is mask}}
sluice.state @w.mask : tensor<4x8xf32> init #sluice.fill<0.0> role "mask" of "w" kind "mlp" checkpoint "w.mask" decay false experts 0 active 0
