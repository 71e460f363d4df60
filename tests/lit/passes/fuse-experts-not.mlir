// RUN: sluice-opt %s --sluice-fuse-experts --verify-diagnostics | FileCheck %s

// What is not gate, up, swiglu and down stays as single library ops.
!r = !sluice.routing<experts = 3, top_k = 2, tokens = "5">
#biased = #sluice.origin<"layers.0.moe", 0, "expert", "forward">
#gelu = #sluice.origin<"layers.1.moe", 1, "expert", "forward">

// CHECK-NOT: sluice.kernel
sluice.graph @model(%x: tensor<5x4xf32>, %r: !r, %gates: tensor<5x2xf32>, %w1: tensor<3x6x4xf32>, %w3: tensor<3x6x4xf32>, %w2: tensor<3x4x6xf32>, %b: tensor<3x6xf32>) {
  %rows = sluice.dispatch %x by %r {sluice.origin = #biased} : (tensor<5x4xf32>, !r) -> tensor<10x4xf32>
  %gate = sluice.grouped_linear %rows, %w1 by %r bias %b {sluice.origin = #biased} : (tensor<10x4xf32>, tensor<3x6x4xf32>, !r, tensor<3x6xf32>) -> tensor<10x6xf32>
  %up = sluice.grouped_linear %rows, %w3 by %r {sluice.origin = #biased} : (tensor<10x4xf32>, tensor<3x6x4xf32>, !r) -> tensor<10x6xf32>
  // expected-remark @below {{not fused in 'layers.0.moe' to experts_up: gate or up has a bias; its ops stay single commands}}
  %act = sluice.swiglu %gate, %up {sluice.origin = #biased} : (tensor<10x6xf32>, tensor<10x6xf32>) -> tensor<10x6xf32>
  %y = sluice.grouped_linear %act, %w2 by %r {sluice.origin = #biased} : (tensor<10x6xf32>, tensor<3x4x6xf32>, !r) -> tensor<10x4xf32>
  %o = sluice.combine %y by %r gates %gates {sluice.origin = #biased} : (tensor<10x4xf32>, !r, tensor<5x2xf32>) -> tensor<5x4xf32>
  %more = sluice.dispatch %o by %r {sluice.origin = #gelu} : (tensor<5x4xf32>, !r) -> tensor<10x4xf32>
  // expected-remark @below {{not fused in 'layers.1.moe': the experts are not gate, up, swiglu and down; their ops stay single commands}}
  %h = sluice.grouped_linear %more, %w1 by %r {sluice.origin = #gelu} : (tensor<10x4xf32>, tensor<3x6x4xf32>, !r) -> tensor<10x6xf32>
  %g = sluice.activation %h {function = "gelu", sluice.origin = #gelu} : (tensor<10x6xf32>) -> tensor<10x6xf32>
  %z = sluice.grouped_linear %g, %w2 by %r {sluice.origin = #gelu} : (tensor<10x6xf32>, tensor<3x4x6xf32>, !r) -> tensor<10x4xf32>
  %p = sluice.combine %z by %r gates %gates {sluice.origin = #gelu} : (tensor<10x4xf32>, !r, tensor<5x2xf32>) -> tensor<5x4xf32>
  sluice.return %p ["p"] {sluice.origin = #gelu} : tensor<5x4xf32>
}
