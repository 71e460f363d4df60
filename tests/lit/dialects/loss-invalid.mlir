// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of losses, broken once.

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<5xi32>) {
  // expected-error @+1 {{'sluice.cross_entropy' op needs one target a token: scores are [6, 3], targets are [5]}}
  %y = sluice.cross_entropy %l, %t : (tensor<6x3xf32>, tensor<5xi32>) -> tensor<f32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<f32>, %t: tensor<5xi32>) {
  // expected-error @+1 {{'sluice.cross_entropy' op needs at least one axis of scores, found a scalar}}
  %y = sluice.cross_entropy %l, %t : (tensor<f32>, tensor<5xi32>) -> tensor<f32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<6xi64>) {
  // expected-error @+1 {{'sluice.cross_entropy' op operand #1 must be ranked tensor of 32-bit ids, but got 'tensor<6xi64>'}}
  %y = sluice.cross_entropy %l, %t : (tensor<6x3xf32>, tensor<6xi64>) -> tensor<f32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<5xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{'sluice.cross_entropy_gradient' op needs one target a token: scores are [6, 3], targets are [5]}}
  %y = sluice.cross_entropy_gradient %l, %t, %g : (tensor<6x3xf32>, tensor<5xi32>, tensor<f32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<6xi32>, %g: tensor<6xf32>) {
  // expected-error @+1 {{'sluice.cross_entropy_gradient' op g must be a scalar, found [6]}}
  %y = sluice.cross_entropy_gradient %l, %t, %g : (tensor<6x3xf32>, tensor<6xi32>, tensor<6xf32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

sluice.graph @g(%t: tensor<6xf32>) {
  // expected-error @+1 {{'sluice.count_targets' op operand #0 must be ranked tensor of 32-bit ids, but got 'tensor<6xf32>'}}
  %n = sluice.count_targets %t : (tensor<6xf32>) -> tensor<f32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x4xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{'sluice.switch_balance' op probabilities must have 3 columns, found [6, 4]}}
  %y = sluice.switch_balance %p, %r, %t : (tensor<6x4xf32>, !routing, tensor<6xi32>) -> tensor<f32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<5x3xf32>, %t: tensor<5xi32>) {
  // expected-error @+1 {{'sluice.switch_balance' op probabilities must have one row for each of the assignment's 6 tokens, found [5, 3]}}
  %y = sluice.switch_balance %p, %r, %t : (tensor<5x3xf32>, !routing, tensor<5xi32>) -> tensor<f32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x3xf32>, %t: tensor<5xi32>) {
  // expected-error @+1 {{'sluice.switch_balance' op needs one target a token: scores are [6, 3], targets are [5]}}
  %y = sluice.switch_balance %p, %r, %t : (tensor<6x3xf32>, !routing, tensor<5xi32>) -> tensor<f32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x4xf32>, %t: tensor<6xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{'sluice.switch_balance_gradient' op probabilities must have 3 columns, found [6, 4]}}
  %y = sluice.switch_balance_gradient %p, %r, %t, %g {normalize = false} : (tensor<6x4xf32>, !routing, tensor<6xi32>, tensor<f32>) -> tensor<6x4xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %p: tensor<6x3xf32>, %t: tensor<6xi32>, %g: tensor<1xf32>) {
  // expected-error @+1 {{'sluice.switch_balance_gradient' op g must be a scalar, found [1]}}
  %y = sluice.switch_balance_gradient %p, %r, %t, %g {normalize = false} : (tensor<6x3xf32>, !routing, tensor<6xi32>, tensor<1xf32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<2x2xi32>) {
  // expected-error @+1 {{'sluice.router_z' op needs one target a token: scores are [6, 3], targets are [2, 2]}}
  %y = sluice.router_z %l, %t : (tensor<6x3xf32>, tensor<2x2xi32>) -> tensor<f32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<2x2xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{'sluice.router_z_gradient' op needs one target a token: scores are [6, 3], targets are [2, 2]}}
  %y = sluice.router_z_gradient %l, %t, %g : (tensor<6x3xf32>, tensor<2x2xi32>, tensor<f32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

sluice.graph @g(%l: tensor<6x3xf32>, %t: tensor<6xi32>, %g: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.router_z_gradient' op g must be a scalar, found [2]}}
  %y = sluice.router_z_gradient %l, %t, %g : (tensor<6x3xf32>, tensor<6xi32>, tensor<2xf32>) -> tensor<6x3xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %l: tensor<6x4xf32>, %p: tensor<6x3xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{'sluice.routing_statistics' op logits must have 3 columns, found [6, 4]}}
  %s = sluice.routing_statistics %l, %p, %r, %t : (tensor<6x4xf32>, tensor<6x3xf32>, !routing, tensor<6xi32>) -> tensor<7xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %l: tensor<6x3xf32>, %p: tensor<5x3xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{'sluice.routing_statistics' op probabilities must have one row for each of the assignment's 6 tokens, found [5, 3]}}
  %s = sluice.routing_statistics %l, %p, %r, %t : (tensor<6x3xf32>, tensor<5x3xf32>, !routing, tensor<6xi32>) -> tensor<7xf32>
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %l: tensor<6x3xf32>, %p: tensor<6x3xf32>, %t: tensor<7xi32>) {
  // expected-error @+1 {{'sluice.routing_statistics' op needs one target a token: scores are [6, 3], targets are [7]}}
  %s = sluice.routing_statistics %l, %p, %r, %t : (tensor<6x3xf32>, tensor<6x3xf32>, !routing, tensor<7xi32>) -> tensor<7xf32>
  sluice.return []
}
