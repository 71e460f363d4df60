// RUN: sluice-opt %s --sluice-check-lowering | FileCheck %s --check-prefix=CPU
// RUN: not sluice-opt %s --sluice-check-lowering=device=other 2>&1 | FileCheck %s
// What a device's kernel lacks is named with its op; plain attention is every device's.

// CPU-LABEL: sluice.graph @logits
// CHECK: error: 2 op(s) have no lowering for device 'other'
// CHECK: note: sluice.rope in 'layers.1.attn': the device's kernel lacks offset, rotary_dim
// CHECK: note: sluice.attention in 'layers.1.attn': the device's kernel lacks softcap, window
// CHECK-NOT: note
sluice.graph @logits(%q: tensor<1x5x8xf32>) {
  %p, %m = sluice.attention %q, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, causal = true, window = 5 : i64, sluice.origin = #sluice.origin<"layers.0.attn", 0, "attention", "forward">} : (tensor<1x5x8xf32>, tensor<1x5x8xf32>, tensor<1x5x8xf32>) -> (tensor<1x5x8xf32>, tensor<1x2x5xf32>)
  %r = sluice.rope %p {heads = 2 : i64, theta = 1.0e4 : f64, offset = 2 : i64, sluice.origin = #sluice.origin<"layers.1.attn", 1, "attention", "forward">} : (tensor<1x5x8xf32>) -> tensor<1x5x8xf32>
  %y, %l = sluice.attention %r, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, causal = true, window = 3 : i64, softcap = 30.0 : f64, sluice.origin = #sluice.origin<"layers.1.attn", 1, "attention", "forward">} : (tensor<1x5x8xf32>, tensor<1x5x8xf32>, tensor<1x5x8xf32>) -> (tensor<1x5x8xf32>, tensor<1x2x5xf32>)
  sluice.return %y ["y"] : tensor<1x5x8xf32>
}
