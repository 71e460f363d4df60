// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of the dense ops, broken once.

sluice.graph @g(%i: tensor<2xi32>, %t: tensor<4xf32>) {
  // expected-error @+2 {{table must have 2 dimensions, found [4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = sluice.embedding %i, %t : (tensor<2xi32>, tensor<4xf32>) -> tensor<2x4xf32>
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%i: tensor<2xi32>, %t: tensor<?x4xf32, #sluice.dims<vocabulary, _>>) {
  // expected-error @+1 {{table must be [vocabulary, width] in numbers, found [vocabulary, 4]}}
  %y = sluice.embedding %i, %t : (tensor<2xi32>, tensor<?x4xf32, #sluice.dims<vocabulary, _>>) -> tensor<2x4xf32>
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%x: tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, %w: tensor<5x3xf32>) {
  // expected-error @+1 {{at 'layers.0.attn': weight must be [5, 4] ([out, in], where in is the last size of x [batch, seq, 4]), found [5, 3]}}
  %y = sluice.linear %x, %w {sluice.origin = #sluice.origin<"layers.0.attn", 0, "attention", "forward">} : (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<5x3xf32>) -> tensor<?x?x5xf32, #sluice.dims<batch, seq, _>>
  sluice.return %y ["y"] : tensor<?x?x5xf32, #sluice.dims<batch, seq, _>>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %w: tensor<5x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{bias must be [5] ([out]), found [4]}}
  %y = sluice.linear %x, %w bias %b : (tensor<2x4xf32>, tensor<5x4xf32>, tensor<4xf32>) -> tensor<2x5xf32>
  sluice.return %y ["y"] : tensor<2x5xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %w: tensor<5x4xf32>, %m: !sluice.mask<[4, 5], kept = 7, "unstructured">) {
  // expected-error @+1 {{mask must have the weight's shape [5, 4], found [4, 5]}}
  %y = sluice.linear %x, %w mask %m : (tensor<2x4xf32>, tensor<5x4xf32>, !sluice.mask<[4, 5], kept = 7, "unstructured">) -> tensor<2x5xf32>
  sluice.return %y ["y"] : tensor<2x5xf32>
}

// -----

sluice.graph @g(%x: tensor<4xf32>, %w: tensor<5x4xf32>) {
  // expected-error @+2 {{x must have at least 2 dimensions, found [4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = sluice.linear %x, %w : (tensor<4xf32>, tensor<5x4xf32>) -> tensor<5xf32>
  sluice.return %y ["y"] : tensor<5xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %g: tensor<2xf32>) {
  // expected-error @+1 {{gain must be [4] (the last size of x [2, 4]), found [2]}}
  %y, %r = sluice.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>)
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{epsilon must not be negative, found -1}}
  %y, %r = sluice.rms_norm %x, %g {epsilon = -1.0 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>)
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x6xf32>) {
  // expected-error @+1 {{the rotary part must have an even, positive size inside a head of 3, found 3 from offset 0}}
  %y = sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  sluice.return %y ["y"] : tensor<2x3x6xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{theta must be positive, found 0}}
  %y = sluice.rope %x {heads = 2 : i64, theta = 0.0 : f64} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x9xf32>) {
  // expected-error @+1 {{kv_heads must divide heads, found 2 and 3}}
  %y, %l = sluice.attention %q, %q, %q {heads = 3 : i64, kv_heads = 2 : i64, scale = 1.0 : f64, causal = true} : (tensor<2x3x9xf32>, tensor<2x3x9xf32>, tensor<2x3x9xf32>) -> (tensor<2x3x9xf32>, tensor<2x3x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x9xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x9xf32>) {
  // expected-error @+1 {{q must be [batch, seq, heads * head_dim], found [2, 3, 9] for 2 heads}}
  %y, %l = sluice.attention %q, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f64, causal = true} : (tensor<2x3x9xf32>, tensor<2x3x9xf32>, tensor<2x3x9xf32>) -> (tensor<2x3x9xf32>, tensor<2x2x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x9xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>) {
  // expected-error @+1 {{k must be [2, 3, 4] ([batch, seq, kv_heads * head_dim]), found [2, 3, 8]}}
  %y, %l = sluice.attention %q, %q, %q {heads = 4 : i64, kv_heads = 2 : i64, scale = 1.0 : f64, causal = true} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %u: tensor<2x3xf32>) {
  // expected-error @+1 {{up must be [2, 4] (the shape of gate), found [2, 3]}}
  %y = sluice.swiglu %x, %u : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x4xf32>
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{function must be one of silu, gelu, gelu_tanh, relu, relu_squared, tanh, sigmoid; found 'swish'}}
  %y = sluice.activation %x {function = "swish"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %u: tensor<4xf32>) {
  // expected-error @+1 {{the second operand must be [2, 4] (the shape of the first), found [4]}}
  %y = sluice.add %x, %u : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x4xf32>, %u: tensor<2xf32>) {
  // expected-error @+1 {{the second operand must broadcast to the first (aligned at the last dimension, sizes equal or 1): found [2] for [2, 4]}}
  %y = sluice.multiply %x, %u : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  sluice.return %y ["y"] : tensor<2x4xf32>
}

// -----

sluice.graph @g(%s: tensor<1xi64>) {
  // expected-error @+2 {{type must be a static tensor, found}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = sluice.random_normal %s {stream = "w", standard_deviation = 1.0 : f64, type = tensor<?xf32>} : (tensor<1xi64>) -> tensor<?xf32>
  sluice.return %y ["y"] : tensor<?xf32>
}

// -----

sluice.graph @g(%x: tensor<f32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{'sluice.linear' op x must have at least 1 dimensions, found []}}
  %y = sluice.linear %x, %w : (tensor<f32>, tensor<4x8xf32>) -> tensor<4xf32>
  sluice.return []
}

// -----

sluice.graph @g(%x: tensor<8xf32>, %w: tensor<f32>) {
  // expected-error @+1 {{'sluice.linear' op weight must have at least 1 dimensions, found []}}
  %y = sluice.linear %x, %w : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  sluice.return []
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>) {
  // expected-error @+1 {{window must not be negative (0: none), found -1}}
  %y, %l = sluice.attention %q, %q, %q {heads = 4 : i64, kv_heads = 4 : i64, scale = 1.0 : f64, causal = true, window = -1 : i64} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>) {
  // expected-error @+1 {{window and slopes look backwards only: they need causal = true}}
  %y, %l = sluice.attention %q, %q, %q {heads = 4 : i64, kv_heads = 4 : i64, scale = 1.0 : f64, causal = false, window = 2 : i64} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>) {
  // expected-error @+1 {{softcap must not be negative (0: none), found -2}}
  %y, %l = sluice.attention %q, %q, %q {heads = 4 : i64, kv_heads = 4 : i64, scale = 1.0 : f64, causal = true, softcap = -2.0 : f64} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>) {
  // expected-error @+1 {{slopes must hold one number a head (4), found 1}}
  %y, %l = sluice.attention %q, %q, %q {heads = 4 : i64, kv_heads = 4 : i64, scale = 1.0 : f64, causal = true, slopes = array<f64: 0.5>} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>, %s: tensor<3xf32>) {
  // expected-error @+1 {{sinks must be [4] ([heads]), found [3]}}
  %y, %l = sluice.attention %q, %q, %q, %s {heads = 4 : i64, kv_heads = 4 : i64, scale = 1.0 : f64, causal = true, window = 0 : i64} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3xf32>) -> (tensor<2x3x8xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%q: tensor<2x3x8xf32>, %v: tensor<2x3x7xf32>) {
  // expected-error @+1 {{v must be [batch, seq, kv_heads * value_dim], found [2, 3, 7] for 4 heads}}
  %y, %l = sluice.attention %q, %q, %v {heads = 4 : i64, kv_heads = 4 : i64, scale = 1.0 : f64, causal = true} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x7xf32>) -> (tensor<2x3x4xf32>, tensor<2x4x3xf32>)
  sluice.return %y ["y"] : tensor<2x3x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{the rotary part must have an even, positive size inside a head of 4, found 4 from offset 2}}
  %y = sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64, offset = 2 : i64, rotary_dim = 4 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{frequencies must hold one number a pair (2), found 1}}
  %y = sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64, frequencies = array<f64: 0.5>} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{factor must be positive, found 0}}
  %y = sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64, factor = 0.0 : f64} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x8xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{bias must be [8] (the last size of x [2, 3, 8]), found [4]}}
  %y, %r = sluice.layer_norm %x bias %g {epsilon = 1.0e-5 : f64} : (tensor<2x3x8xf32>, tensor<4xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x1xf32>)
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3x8xf32>, %t: tensor<5x4xf32>) {
  // expected-error @+1 {{table must be [positions, 8] for x [2, 3, 8], found [5, 4]}}
  %y = sluice.position_embedding %x, %t : (tensor<2x3x8xf32>, tensor<5x4xf32>) -> tensor<2x3x8xf32>
  sluice.return %y ["y"] : tensor<2x3x8xf32>
}
