// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of routing and losses, broken once.

sluice.graph @g(%l: tensor<6x3xf32>) {
  // expected-error @+1 {{in @g: top_k must be between 1 and the number of experts, found top_k = 4 of 3 experts}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "softmax", renormalize = true} : (tensor<6x3xf32>) -> (!sluice.routing<experts = 3, top_k = 4, tokens = "6">, tensor<6x4xf32>, tensor<6x3xf32>)
  sluice.return %g ["g"] : tensor<6x4xf32>
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>) {
  %y = sluice.repeat "layers" times 2 (%x = %l) : (tensor<6x3xf32>) -> tensor<6x3xf32> {
    // expected-error @+1 {{in layers: top_k = 1 with renormalize makes every gate the constant 1}}
    %r, %g, %p = sluice.route %x {top_k = 1 : i64, score = "softmax", renormalize = true} : (tensor<6x3xf32>) -> (!sluice.routing<experts = 3, top_k = 1, tokens = "6">, tensor<6x1xf32>, tensor<6x3xf32>)
    sluice.yield %p : tensor<6x3xf32>
  }
  sluice.return %y ["y"] : tensor<6x3xf32>
}

// -----

// The study of constant gates is allowed when it says so.
sluice.graph @g(%l: tensor<6x3xf32>) {
  %r, %g, %p = sluice.route %l {top_k = 1 : i64, score = "softmax", renormalize = true, allow_constant_gate = true} : (tensor<6x3xf32>) -> (!sluice.routing<experts = 3, top_k = 1, tokens = "6">, tensor<6x1xf32>, tensor<6x3xf32>)
  sluice.return %g ["g"] : tensor<6x1xf32>
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>) {
  // expected-error @+1 {{score must be "softmax" or "sigmoid", found "relu"}}
  %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "relu", renormalize = true} : (tensor<6x3xf32>) -> (!sluice.routing<experts = 3, top_k = 2, tokens = "6">, tensor<6x2xf32>, tensor<6x3xf32>)
  sluice.return %g ["g"] : tensor<6x2xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<5x4xf32>) {
  // expected-error @+1 {{x must have one row for each of the assignment's 6 tokens, found [5, 4]}}
  %y = sluice.dispatch %x by %r : (tensor<5x4xf32>, !routing) -> tensor<12x4xf32>
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<6x4xf32>, %g: tensor<6x3xf32>) {
  // expected-error @+1 {{gates must have 2 columns, found [6, 3]}}
  %y = sluice.dispatch %x by %r gates %g : (tensor<6x4xf32>, !routing, tensor<6x3xf32>) -> tensor<12x4xf32>
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<11x4xf32>) {
  // expected-error @+1 {{rows must be [12, ...], the assignment's rows (tokens * top_k), found [11, 4]}}
  %y = sluice.combine %x by %r : (tensor<11x4xf32>, !routing) -> tensor<6x4xf32>
  sluice.return %y ["y"] : tensor<6x4xf32>
}

// -----

// Equal types prove nothing: the same assignment is the same value.
!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %q: !routing, %x: tensor<6x4xf32>) {
  // expected-note @+1 {{grouped here}}
  %rows = sluice.dispatch %x by %r : (tensor<6x4xf32>, !routing) -> tensor<12x4xf32>
  %twice = sluice.scale %rows {factor = 2.0 : f64} : (tensor<12x4xf32>) -> tensor<12x4xf32>
  // expected-error @+1 {{rows were grouped by another assignment than the one named here}}
  %y = sluice.combine %twice by %q : (tensor<12x4xf32>, !routing) -> tensor<6x4xf32>
  sluice.return %y ["y"] : tensor<6x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<2x5x4xf32>) {
  // expected-error @+1 {{weight must have one matrix for each of the assignment's 3 experts, found [2, 5, 4]}}
  %y = sluice.grouped_linear %x, %w by %r : (tensor<12x4xf32>, tensor<2x5x4xf32>, !routing) -> tensor<12x5xf32>
  sluice.return %y ["y"] : tensor<12x5xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<3x5x6xf32>) {
  // expected-error @+1 {{x [12, 4] and weight [3, 5, 6] disagree in the number of inputs}}
  %y = sluice.grouped_linear %x, %w by %r : (tensor<12x4xf32>, tensor<3x5x6xf32>, !routing) -> tensor<12x5xf32>
  sluice.return %y ["y"] : tensor<12x5xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<3x5x4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{bias must be [experts, out], found [5]}}
  %y = sluice.grouped_linear %x, %w by %r bias %b : (tensor<12x4xf32>, tensor<3x5x4xf32>, !routing, tensor<5xf32>) -> tensor<12x5xf32>
  sluice.return %y ["y"] : tensor<12x5xf32>
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<5xi32>) {
  // expected-error @+1 {{needs one target a token: scores are [6, 3], targets are [5]}}
  %y = sluice.cross_entropy %l, %t : (tensor<6x3xf32>, tensor<5xi32>) -> tensor<f32>
  sluice.return %y ["y"] : tensor<f32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x4xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{probabilities must have 3 columns, found [6, 4]}}
  %y = sluice.switch_balance %p, %r, %t : (tensor<6x4xf32>, !routing, tensor<6xi32>) -> tensor<f32>
  sluice.return %y ["y"] : tensor<f32>
}
