// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Losses and what is reported of routing: what is written is what is printed, named sizes included.
!ids = tensor<?x?xi32, #sluice.dims<batch, seq>>
!gates = tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>
!scores = tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>
!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq">

// CHECK-LABEL: sluice.graph @losses
sluice.graph @losses(%l: !scores, %targets: !ids) {
  %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "sigmoid", renormalize = true, epsilon = 1.0e-20 : f64, scale = 2.5 : f64} : (!scores) -> (!routing, !gates, !scores)
  // CHECK: sluice.cross_entropy %{{.*}}, %{{.*}} : ({{.*}}) -> tensor<f32>
  %c = sluice.cross_entropy %l, %targets : (!scores, !ids) -> tensor<f32>
  // CHECK: sluice.cross_entropy_gradient
  %dc = sluice.cross_entropy_gradient %l, %targets, %c : (!scores, !ids, tensor<f32>) -> !scores
  // CHECK: sluice.count_targets {{.*}} {ignore_index = 0 : i64}
  %n = sluice.count_targets %targets {ignore_index = 0 : i64} : (!ids) -> tensor<f32>
  // CHECK: sluice.switch_balance {{.*}} {normalize = true}
  %b = sluice.switch_balance %p, %r, %targets {normalize = true} : (!scores, !routing, !ids) -> tensor<f32>
  // CHECK: sluice.switch_balance_gradient
  %db = sluice.switch_balance_gradient %p, %r, %targets, %b {normalize = true} : (!scores, !routing, !ids, tensor<f32>) -> !scores
  // CHECK: sluice.router_z %
  %z = sluice.router_z %l, %targets : (!scores, !ids) -> tensor<f32>
  // CHECK: sluice.router_z_gradient
  %dz = sluice.router_z_gradient %l, %targets, %z : (!scores, !ids, tensor<f32>) -> !scores
  // CHECK: sluice.routing_statistics {{.*}} -> tensor<7xf32>
  %s = sluice.routing_statistics %l, %p, %r, %targets : (!scores, !scores, !routing, !ids) -> tensor<7xf32>
  sluice.return %n, %dc, %db, %dz, %s ["n", "dc", "db", "dz", "s"] : tensor<f32>, !scores, !scores, !scores, tensor<7xf32>
}
