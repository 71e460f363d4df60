// RUN: sluice-opt %s --sluice-split-logits --sluice-bind-dimensions="bindings=batch=3,seq=5" | FileCheck %s
// RUN: not sluice-opt %s --sluice-split-logits --sluice-bind-dimensions="bindings=batch=3" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not sluice-opt %s --sluice-split-logits --sluice-bind-dimensions="bindings=batch=3,seq=5,sequence=5" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not sluice-opt %s --sluice-split-logits --sluice-bind-dimensions="bindings=batch=3,batch=3,seq=5" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not sluice-opt %s --sluice-split-logits --sluice-bind-dimensions="bindings=batch=0,seq=5" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not sluice-opt %s --sluice-split-logits --sluice-bind-dimensions="bindings=batch=4000000000,seq=4000000000" 2>&1 | FileCheck %s --check-prefix=OVERFLOW

// MISSING: dimension 'seq' has no size or overflows; bind it, e.g. --bind seq=8 (names of this model: batch, seq)
// UNKNOWN: no dimension is called 'sequence'; names of this model: batch, seq
// TWICE: dimension 'batch' is bound twice
// ZERO: binding 'batch=0': expected NAME=SIZE with a size of at least 1
// OVERFLOW: has no size or overflows

!ids = tensor<?x?xi32, #sluice.dims<batch, seq>>
!x = tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
!e = tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>
!k = tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>
!rows = tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>
!r = !sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq">

// CHECK: module attributes {sluice.bindings = {batch = 3 : i64, seq = 5 : i64}}
// CHECK: sluice.graph @model(%{{.*}}: tensor<3x5xi32>, %{{.*}}: tensor<3x5xi32>)
// CHECK: sluice.embedding {{.*}} -> tensor<3x5x4xf32>
// CHECK: !sluice.routing<experts = 3, top_k = 2, tokens = "15">
// CHECK: sluice.dispatch {{.*}} -> tensor<30x4xf32>
// CHECK: sluice.combine {{.*}} -> tensor<3x5x4xf32>
// CHECK: sluice.return {{.*}} ["logits", "loss_sum"]

// The graph for generation: one sequence, no targets, no losses.
// CHECK: sluice.graph @logits(%{{[a-z0-9]*}}: tensor<1x5xi32>) attributes {input_names = ["tokens"]}
// CHECK-NOT: sluice.cross_entropy
// CHECK-NOT: sluice.auxiliary_loss
// CHECK: tokens = "5"
// CHECK: sluice.return {{.*}} ["logits"]
sluice.graph @anything(%tokens: !ids, %targets: !ids) {
  %table = sluice.param "embed" init #sluice.normal<0.02 : f64> role "embedding" : tensor<11x4xf32>
  %x = sluice.embedding %tokens, %table : (!ids, tensor<11x4xf32>) -> !x
  %wr = sluice.param "router" init #sluice.normal<0.02 : f64> role "router" : tensor<3x4xf32>
  %l = sluice.linear %x, %wr : (!x, tensor<3x4xf32>) -> !e
  %r, %gates, %p = sluice.route %l {top_k = 2 : i64, score = "softmax", renormalize = true} : (!e) -> (!r, !k, !e)
  %z = sluice.router_z %l, %targets : (!e, !ids) -> tensor<f32>
  sluice.auxiliary_loss "router_z" %z weight 0.001 : tensor<f32>
  %rows = sluice.dispatch %x by %r : (!x, !r) -> !rows
  %y = sluice.combine %rows by %r gates %gates : (!rows, !r, !k) -> !x
  %logits = sluice.linear %y, %table : (!x, tensor<11x4xf32>) -> tensor<?x?x11xf32, #sluice.dims<batch, seq, _>>
  %loss = sluice.cross_entropy %logits, %targets : (tensor<?x?x11xf32, #sluice.dims<batch, seq, _>>, !ids) -> tensor<f32>
  sluice.return %logits, %loss ["logits", "loss_sum"] : tensor<?x?x11xf32, #sluice.dims<batch, seq, _>>, tensor<f32>
}
