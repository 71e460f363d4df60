// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// A dense block with named sizes: what is printed parses to the same again.

// CHECK-LABEL: sluice.graph @block(
// CHECK-SAME: %{{.*}}: tensor<?x?xi32, #sluice.dims<batch, seq>>
sluice.graph @block(%tokens: tensor<?x?xi32, #sluice.dims<batch, seq>>, %table: tensor<11x8xf32>, %gain: tensor<8xf32>,
    %wq: tensor<8x8xf32>, %wk: tensor<4x8xf32>, %bias: tensor<4xf32>, %w1: tensor<12x8xf32>,
    %mask: !sluice.mask<[12, 8], kept = 24, "unstructured">) {
  // CHECK: sluice.embedding {{.*}} : (tensor<?x?xi32, #sluice.dims<batch, seq>>, tensor<11x8xf32>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  %x = sluice.embedding %tokens, %table : (tensor<?x?xi32, #sluice.dims<batch, seq>>, tensor<11x8xf32>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.rms_norm {{.*}} {epsilon = 1.000000e-05 : f64} : {{.*}} -> (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>)
  %n, %r = sluice.rms_norm %x, %gain {epsilon = 1.0e-5 : f64} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<8xf32>) -> (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>)
  // CHECK: sluice.linear %{{[^ ]*}}, %{{[^ ]*}} :
  %q = sluice.linear %n, %wq : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<8x8xf32>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.linear %{{.*}}, %{{.*}} bias %{{.*}} :
  %k = sluice.linear %n, %wk bias %bias : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.rope %{{.*}} {heads = 4 : i64, theta = 1.000000e+04 : f64} :
  %t = sluice.rope %q {heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.rope %{{.*}} {heads = 4 : i64, inverse = true, theta = 1.000000e+04 : f64} :
  %u = sluice.rope %t {heads = 4 : i64, theta = 1.0e4 : f64, inverse = true} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.attention %{{.*}} {causal = true, heads = 4 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f64} : {{.*}} -> (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x4x?xf32, #sluice.dims<batch, _, seq>>)
  %a, %l = sluice.attention %u, %k, %k {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, causal = true} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>) -> (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x4x?xf32, #sluice.dims<batch, _, seq>>)
  // CHECK: sluice.attention_gradient
  %dq, %dk, %dv = sluice.attention_gradient %u, %k, %k, %a, %l, %a {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, causal = true} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x4x?xf32, #sluice.dims<batch, _, seq>>, tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>)
  // CHECK: sluice.add %{{.*}}, %{{.*}} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  %y = sluice.add %x, %a : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.linear %{{.*}}, %{{.*}} mask %{{.*}} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<12x8xf32>, !sluice.mask<[12, 8], kept = 24, "unstructured">)
  %g = sluice.linear %y, %w1 mask %mask : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<12x8xf32>, !sluice.mask<[12, 8], kept = 24, "unstructured">) -> tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.swiglu
  %s = sluice.swiglu %g, %g : (tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.activation %{{.*}} {function = "gelu"} :
  %e = sluice.activation %s {function = "gelu"} : (tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.softmax
  %m = sluice.softmax %e : (tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.scale %{{.*}} {factor = 5.000000e-01 : f64} :
  %c = sluice.scale %m {factor = 0.5 : f64} : (tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.multiply
  %p = sluice.multiply %y, %gain : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<8xf32>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.rope %{{.*}} {factor = 1.200000e+00 : f64, frequencies = array<f64: 5.000000e-01>, heads = 2 : i64, interleaved = true, offset = 2 : i64, rotary_dim = 2 : i64, theta = 1.000000e+04 : f64} :
  %rp = sluice.rope %q {heads = 2 : i64, theta = 1.0e4 : f64, offset = 2 : i64, rotary_dim = 2 : i64, interleaved = true, factor = 1.2 : f64, frequencies = array<f64: 0.5>} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {causal = true, heads = 4 : i64, kv_heads = 4 : i64, scale = 5.000000e-01 : f64, slopes = array<f64: 5.000000e-01, 2.500000e-01, 1.250000e-01, 6.250000e-02>, softcap = 5.000000e+01 : f64, window = 128 : i64} : {{.*}} -> (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x4x?xf32, #sluice.dims<batch, _, seq>>)
  %wa, %wl = sluice.attention %q, %q, %k, %bias {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.5 : f64, causal = true, window = 128 : i64, softcap = 50.0 : f64, slopes = array<f64: 0.5, 0.25, 0.125, 0.0625>} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<4xf32>) -> (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x4x?xf32, #sluice.dims<batch, _, seq>>)
  // CHECK: sluice.reshape %{{.*}} {shape = array<i64: -2, -2, 2, 4>} : {{.*}} -> tensor<?x?x2x4xf32, #sluice.dims<batch, seq, _, _>>
  %rs = sluice.reshape %q {shape = array<i64: -2, -2, 2, 4>} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x2x4xf32, #sluice.dims<batch, seq, _, _>>
  // CHECK: sluice.layer_norm %{{[^ ]*}} gain %{{[^ ]*}} {epsilon = 1.000000e-05 : f64} :
  %ln, %lr = sluice.layer_norm %x gain %gain {epsilon = 1.0e-5 : f64} : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<8xf32>) -> (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>)
  // CHECK: sluice.position_embedding
  %pe = sluice.position_embedding %x, %table : (tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>, tensor<11x8xf32>) -> tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.embedding_gradient %{{.*}} {vocabulary = 11 : i64} : {{.*}} -> tensor<11x8xf32>
  %d = sluice.embedding_gradient %tokens, %p {vocabulary = 11 : i64} : (tensor<?x?xi32, #sluice.dims<batch, seq>>, tensor<?x?x8xf32, #sluice.dims<batch, seq, _>>) -> tensor<11x8xf32>
  sluice.return %c, %d ["c", "d"] : tensor<?x?x12xf32, #sluice.dims<batch, seq, _>>, tensor<11x8xf32>
}
