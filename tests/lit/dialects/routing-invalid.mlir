// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of routing, broken once.

sluice.graph @g(%l: tensor<6x3xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: top_k must be between 1 and the number of experts, found top_k = 4 of 3 experts}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "softmax", renormalize = true} : (tensor<6x3xf32>) -> (!sluice.routing<experts = 3, top_k = 4, tokens = "6">, tensor<6x4xf32>, tensor<6x3xf32>)
  sluice.return %g ["g"] : tensor<6x4xf32>
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>) {
  %y = sluice.repeat "layers" times 2 (%x = %l) : (tensor<6x3xf32>) -> tensor<6x3xf32> {
    // expected-error @+1 {{'sluice.route' op in layers: top_k = 1 with renormalize makes every gate the constant 1.000000e+00, so cross-entropy gives the router no gradient; use renormalize = false, or say allow_constant_gate = true if that is the study}}
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
  // expected-error @+1 {{'sluice.route' op in @g: score must be "softmax" or "sigmoid", found "relu"}}
  %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "relu", renormalize = true} : (tensor<6x3xf32>) -> (!sluice.routing<experts = 3, top_k = 2, tokens = "6">, tensor<6x2xf32>, tensor<6x3xf32>)
  sluice.return %g ["g"] : tensor<6x2xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<5x4xf32>) {
  // expected-error @+1 {{'sluice.dispatch' op in @g: x must have one row for each of the assignment's 6 tokens, found [5, 4]}}
  %y = sluice.dispatch %x by %r : (tensor<5x4xf32>, !routing) -> tensor<12x4xf32>
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<6x4xf32>, %g: tensor<6x3xf32>) {
  // expected-error @+1 {{'sluice.dispatch' op gates must have 2 columns, found [6, 3]}}
  %y = sluice.dispatch %x by %r gates %g : (tensor<6x4xf32>, !routing, tensor<6x3xf32>) -> tensor<12x4xf32>
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<11x4xf32>) {
  // expected-error @+1 {{'sluice.combine' op rows must be [12, ...], the assignment's rows (tokens * top_k), found [11, 4]}}
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
  // expected-error @+1 {{'sluice.combine' op in @g: rows were grouped by another assignment than the one named here}}
  %y = sluice.combine %twice by %q : (tensor<12x4xf32>, !routing) -> tensor<6x4xf32>
  sluice.return %y ["y"] : tensor<6x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<2x5x4xf32>) {
  // expected-error @+1 {{'sluice.grouped_linear' op in @g: weight must have one matrix for each of the assignment's 3 experts, found [2, 5, 4]}}
  %y = sluice.grouped_linear %x, %w by %r : (tensor<12x4xf32>, tensor<2x5x4xf32>, !routing) -> tensor<12x5xf32>
  sluice.return %y ["y"] : tensor<12x5xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<3x5x6xf32>) {
  // expected-error @+1 {{'sluice.grouped_linear' op in @g: x [12, 4] and weight [3, 5, 6] disagree in the number of inputs}}
  %y = sluice.grouped_linear %x, %w by %r : (tensor<12x4xf32>, tensor<3x5x6xf32>, !routing) -> tensor<12x5xf32>
  sluice.return %y ["y"] : tensor<12x5xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<3x5x4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'sluice.grouped_linear' op in @g: bias must be [experts, out], found [5]}}
  %y = sluice.grouped_linear %x, %w by %r bias %b : (tensor<12x4xf32>, tensor<3x5x4xf32>, !routing, tensor<5xf32>) -> tensor<12x5xf32>
  sluice.return %y ["y"] : tensor<12x5xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%l: tensor<f32>) {
  // expected-error @+2 {{'sluice.route' op needs logits [..., experts] with a known number of experts, found []}}
  // expected-error @+1 {{failed to infer returned types}}
  %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "softmax", renormalize = true} : (tensor<f32>) -> (!routing, tensor<f32>, tensor<f32>)
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x4xf32>, %g: tensor<6x2xf32>) {
  // expected-error @+1 {{'sluice.route_gradient' op probabilities must have 3 columns, found [6, 4]}}
  %l = sluice.route_gradient %p, %g, %r, %g, %p {score = "softmax", renormalize = true, epsilon = 0.0 : f64, scale = 1.0 : f64} : (tensor<6x4xf32>, tensor<6x2xf32>, !routing, tensor<6x2xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x3xf32>, %g: tensor<6x2xf32>, %d: tensor<5x2xf32>) {
  // expected-error @+1 {{'sluice.route_gradient' op dgates must have one row for each of the assignment's 6 tokens, found [5, 2]}}
  %l = sluice.route_gradient %p, %g, %r, %d, %p {score = "softmax", renormalize = true, epsilon = 0.0 : f64, scale = 1.0 : f64} : (tensor<6x3xf32>, tensor<6x2xf32>, !routing, tensor<5x2xf32>, tensor<6x3xf32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x3xf32>, %g: tensor<6x2xf32>) {
  // expected-error @+1 {{'sluice.route_gradient' op in @g: score must be "softmax" or "sigmoid", found "relu"}}
  %l = sluice.route_gradient %p, %g, %r, %g, %p {score = "relu", renormalize = true, epsilon = 0.0 : f64, scale = 1.0 : f64} : (tensor<6x3xf32>, tensor<6x2xf32>, !routing, tensor<6x2xf32>, tensor<6x3xf32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<6xf32>) {
  // expected-error @+1 {{'sluice.dispatch' op in @g: x must have one row for each of the assignment's 6 tokens, found [6]}}
  %y = sluice.dispatch %x by %r : (tensor<6xf32>, !routing) -> tensor<12xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12xf32>) {
  // expected-error @+1 {{'sluice.combine' op rows must be [12, ...], the assignment's rows (tokens * top_k), found [12]}}
  %y = sluice.combine %x by %r : (tensor<12xf32>, !routing) -> tensor<6xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<6xf32>, %x: tensor<12x4xf32>) {
  // expected-error @+1 {{'sluice.combine_gate_gradient' op in @g: dy must have one row for each of the assignment's 6 tokens, found [6]}}
  %y = sluice.combine_gate_gradient %d, %x, %r : (tensor<6xf32>, tensor<12x4xf32>, !routing) -> tensor<2xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<5x4xf32>, %x: tensor<12x4xf32>) {
  // expected-error @+1 {{'sluice.combine_gate_gradient' op in @g: dy must have one row for each of the assignment's 6 tokens, found [5, 4]}}
  %y = sluice.combine_gate_gradient %d, %x, %r : (tensor<5x4xf32>, tensor<12x4xf32>, !routing) -> tensor<5x2xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<6x4xf32>, %x: tensor<6x4xf32>) {
  // expected-error @+1 {{'sluice.combine_gate_gradient' op rows must be [12, ...], the assignment's rows (tokens * top_k), found [6, 4]}}
  %y = sluice.combine_gate_gradient %d, %x, %r : (tensor<6x4xf32>, tensor<6x4xf32>, !routing) -> tensor<6x2xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<6x4xf32>, %x: tensor<12x5xf32>) {
  // expected-error @+1 {{'sluice.combine_gate_gradient' op in @g: dy [6, 4] and rows [12, 5] disagree in the last size}}
  %y = sluice.combine_gate_gradient %d, %x, %r : (tensor<6x4xf32>, tensor<12x5xf32>, !routing) -> tensor<6x2xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<5x4xf32>) {
  // expected-error @+1 {{'sluice.grouped_linear' op in @g: weight must be [experts, out, in], found [5, 4]}}
  %y = sluice.grouped_linear %x, %w by %r : (tensor<12x4xf32>, tensor<5x4xf32>, !routing) -> tensor<12x5xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>, %w: tensor<3x5x4xf32>, %m: !sluice.mask<[3, 4, 5], kept = 7, "unstructured">) {
  // expected-error @+1 {{mask must have the weight's shape [3, 5, 4], found [3, 4, 5]}}
  %y = sluice.grouped_linear %x, %w by %r mask %m : (tensor<12x4xf32>, tensor<3x5x4xf32>, !routing, !sluice.mask<[3, 4, 5], kept = 7, "unstructured">) -> tensor<12x5xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %q: !routing, %x: tensor<6x4xf32>, %w: tensor<3x5x4xf32>) {
  %rows = sluice.dispatch %x by %r : (tensor<6x4xf32>, !routing) -> tensor<12x4xf32>
  // expected-error @+1 {{'sluice.grouped_linear' op in @g: rows were grouped by another assignment than the one named here}}
  %y = sluice.grouped_linear %rows, %w by %q : (tensor<12x4xf32>, tensor<3x5x4xf32>, !routing) -> tensor<12x5xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<12x5xf32>, %x: tensor<11x4xf32>) {
  // expected-error @+2 {{'sluice.grouped_weight_gradient' op needs dy [rows, out] and x [rows, in], found [12, 5] and [11, 4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %w = sluice.grouped_weight_gradient %d, %x, %r : (tensor<12x5xf32>, tensor<11x4xf32>, !routing) -> tensor<3x5x4xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<11x5xf32>, %x: tensor<11x4xf32>) {
  // expected-error @+1 {{'sluice.grouped_weight_gradient' op dy must be [12, ...], the assignment's rows (tokens * top_k), found [11, 5]}}
  %w = sluice.grouped_weight_gradient %d, %x, %r : (tensor<11x5xf32>, tensor<11x4xf32>, !routing) -> tensor<3x5x4xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<12xf32>) {
  // expected-error @+1 {{'sluice.grouped_sum' op dy must be [12, ...], the assignment's rows (tokens * top_k), found [12]}}
  %b = sluice.grouped_sum %d, %r : (tensor<12xf32>, !routing) -> tensor<3xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %d: tensor<11x5xf32>) {
  // expected-error @+1 {{'sluice.grouped_sum' op dy must be [12, ...], the assignment's rows (tokens * top_k), found [11, 5]}}
  %b = sluice.grouped_sum %d, %r : (tensor<11x5xf32>, !routing) -> tensor<3x5xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<f32>) {
  // expected-error @+1 {{'sluice.dispatch' op in @g: x must have one row for each of the assignment's 6 tokens, found []}}
  %y = sluice.dispatch %x by %r : (tensor<f32>, !routing) -> tensor<12x4xf32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<5x6xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: bias must be [experts] = [6], found [5]}}
  %r, %g, %p = sluice.route %l, %b {top_k = 4 : i64, score = "sigmoid", renormalize = true} : (tensor<5x6xf32>, tensor<5xf32>) -> (!sluice.routing<experts = 6, top_k = 4, tokens = "5">, tensor<5x4xf32>, tensor<5x6xf32>)
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<5x6xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: groups must divide the 6 experts, found 4}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "sigmoid", renormalize = true, groups = 4 : i64} : (tensor<5x6xf32>) -> (!sluice.routing<experts = 6, top_k = 4, tokens = "5">, tensor<5x4xf32>, tensor<5x6xf32>)
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<5x6xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: groups_kept must be between 1 and groups = 2, found 3}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "sigmoid", renormalize = true, groups = 2 : i64, groups_kept = 3 : i64} : (tensor<5x6xf32>) -> (!sluice.routing<experts = 6, top_k = 4, tokens = "5">, tensor<5x4xf32>, tensor<5x6xf32>)
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<5x6xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: group_score must be "maximum" or "sum_of_best_two", found "mean"}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "sigmoid", renormalize = true, groups = 2 : i64, groups_kept = 2 : i64, group_score = "mean"} : (tensor<5x6xf32>) -> (!sluice.routing<experts = 6, top_k = 4, tokens = "5">, tensor<5x4xf32>, tensor<5x6xf32>)
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<5x6xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: group_score = "sum_of_best_two" needs at least 2 experts a group, found 6 experts in 6 groups}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "sigmoid", renormalize = true, groups = 6 : i64, groups_kept = 6 : i64, group_score = "sum_of_best_two"} : (tensor<5x6xf32>) -> (!sluice.routing<experts = 6, top_k = 4, tokens = "5">, tensor<5x4xf32>, tensor<5x6xf32>)
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<5x6xf32>) {
  // expected-error @+1 {{'sluice.route' op in @g: top_k = 4 is more than the 3 experts of the 1 kept groups}}
  %r, %g, %p = sluice.route %l {top_k = 4 : i64, score = "sigmoid", renormalize = true, groups = 2 : i64} : (tensor<5x6xf32>) -> (!sluice.routing<experts = 6, top_k = 4, tokens = "5">, tensor<5x4xf32>, tensor<5x6xf32>)
  sluice.return []
}
