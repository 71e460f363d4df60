// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Routing and the experts' products: what is written is what is printed, named sizes included.
!x = tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
!gates = tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>
!scores = tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>
!rows = tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>
!wide = tensor<?x5xf32, #sluice.dims<"2*batch*seq", _>>
!tokens = tensor<?x4xf32, #sluice.dims<"batch*seq", _>>
!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq">

// CHECK-LABEL: sluice.graph @routing
sluice.graph @routing(%l: !scores, %x: !x, %w: tensor<3x5x4xf32>, %b: tensor<3x5xf32>, %b4: tensor<4xf32>) {
  // CHECK: sluice.route %{{.*}} {renormalize = true, score = "softmax", top_k = 2 : i64} : (tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>) -> (!sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq">, tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>)
  %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "softmax", renormalize = true} : (!scores) -> (!routing, !gates, !scores)
  // A selection bias is a second operand; groups are attributes, printed where they are not the default.
  // CHECK: sluice.route %{{.*}}, %{{.*}} {group_score = "sum_of_best_two", groups = 2 : i64, groups_kept = 2 : i64, renormalize = true, score = "sigmoid", top_k = 2 : i64} : (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<4xf32>) ->
  %r4, %g4, %p4 = sluice.route %x, %b4 {top_k = 2 : i64, score = "sigmoid", renormalize = true, groups = 2 : i64, groups_kept = 2 : i64, group_score = "sum_of_best_two"} : (!x, tensor<4xf32>) -> (!sluice.routing<experts = 4, top_k = 2, tokens = "batch*seq">, !gates, !x)
  // CHECK: sluice.dispatch %{{.*}} by %{{.*}} : ({{.*}}) -> tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>
  %rows = sluice.dispatch %x by %r : (!x, !routing) -> !rows
  // CHECK: sluice.dispatch %{{.*}} by %{{.*}} gates %
  %weighted = sluice.dispatch %x by %r gates %g : (!x, !routing, !gates) -> !rows
  // CHECK: sluice.grouped_linear %{{.*}}, %{{.*}} by %{{.*}} bias %
  %up = sluice.grouped_linear %rows, %w by %r bias %b : (!rows, tensor<3x5x4xf32>, !routing, tensor<3x5xf32>) -> !wide
  // CHECK: sluice.grouped_linear {{.*}} {transpose_weight = true}
  %down = sluice.grouped_linear %up, %w by %r {transpose_weight = true} : (!wide, tensor<3x5x4xf32>, !routing) -> !rows
  // CHECK: sluice.combine %{{.*}} by %{{.*}} gates %{{.*}} -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
  %y = sluice.combine %down by %r gates %g : (!rows, !routing, !gates) -> !x
  // Without gates the tokens are one axis.
  // CHECK: sluice.combine {{.*}} -> tensor<?x4xf32, #sluice.dims<"batch*seq", _>>
  %z = sluice.combine %down by %r : (!rows, !routing) -> !tokens
  // CHECK: sluice.grouped_weight_gradient {{.*}} -> tensor<3x5x4xf32>
  %dw = sluice.grouped_weight_gradient %up, %rows, %r : (!wide, !rows, !routing) -> tensor<3x5x4xf32>
  // CHECK: sluice.grouped_sum {{.*}} -> tensor<3x5xf32>
  %db = sluice.grouped_sum %up, %r : (!wide, !routing) -> tensor<3x5xf32>
  // CHECK: sluice.combine_gate_gradient {{.*}} -> tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>
  %dg = sluice.combine_gate_gradient %x, %rows, %r : (!x, !rows, !routing) -> !gates
  // CHECK: sluice.route_gradient
  %dl = sluice.route_gradient %p, %g, %r, %dg, %p {score = "softmax", renormalize = true, epsilon = 0.0 : f64, scale = 1.0 : f64} : (!scores, !gates, !routing, !gates, !scores) -> !scores
  sluice.return %y, %z, %weighted, %dw, %db, %dl ["y", "z", "weighted", "dw", "db", "dl"] : !x, !tokens, !rows, tensor<3x5x4xf32>, tensor<3x5xf32>, !scores
}
