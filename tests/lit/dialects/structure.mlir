// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Graphs, parameters, states, the three notations and kernels: what is written is what is printed.
!ids = tensor<?x?xi32, #sluice.dims<batch, seq>>
!x = tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
!gates = tensor<?x?x2xf32, #sluice.dims<batch, seq, _>>
!scores = tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>
!rows = tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>
!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq">

// CHECK: sluice.state @w : tensor<2x3xf32> init #sluice.normal<2.000000e-02 : f64> role "parameter" of "w" kind "mlp" checkpoint "model.w.weight" decay true experts 0 active 0
sluice.state @w : tensor<2x3xf32> init #sluice.normal<0.02 : f64> role "parameter" of "w" kind "mlp" checkpoint "model.w.weight" decay true experts 0 active 0
// CHECK: sluice.state @up.gradient : tensor<3x5x4xf32> init #sluice.fill<0.000000e+00 : f64> role "gradient" of "up" kind "expert" checkpoint "up.gradient" decay true experts 3 active 2 {sluice.origin = #sluice.origin<"layers.0.moe", 0, "expert", "forward">}
sluice.state @up.gradient : tensor<3x5x4xf32> init #sluice.fill<0.0 : f64> role "gradient" of "up" kind "expert" checkpoint "up.gradient" decay true experts 3 active 2 {sluice.origin = #sluice.origin<"layers.0.moe", 0, "expert", "forward">}

// Inputs are named by their values' names, and the names stay when the printer numbers the values.
// CHECK-LABEL: sluice.graph @model(
// CHECK-SAME: %[[TOKENS:.*]]: tensor<?x?xi32, #sluice.dims<batch, seq>>, %[[X:.*]]: tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, %[[L:.*]]: tensor<?x?x3xf32, #sluice.dims<batch, seq, _>>) attributes {input_names = ["tokens", "x", "l"]} {
sluice.graph @model(%tokens: !ids, %x: !x, %l: !scores) {
  // CHECK: sluice.param "plain" init #sluice.fill<1.000000e+00 : f64> role "norm" : tensor<4xf32>
  %plain = sluice.param "plain" init #sluice.fill<1.0 : f64> role "norm" : tensor<4xf32>
  // CHECK: sluice.param "full" init #sluice.normal<2.000000e-02 : f64> role "mlp" checkpoint "model.layers.{layer}.w" decay false : tensor<4x4xf32>
  %full = sluice.param "full" init #sluice.normal<0.02 : f64> role "mlp" checkpoint "model.layers.{layer}.w" decay false : tensor<4x4xf32>
  // A repeat that carries two values; a scope with a role inside.
  // CHECK: %[[R:.*]]:2 = sluice.repeat "layers" times 3 (%[[A:.*]] = %[[X]], %[[B:.*]] = %[[X]]) : (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>) -> (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>) {
  %y:2 = sluice.repeat "layers" times 3 (%a = %x, %b = %x) : (!x, !x) -> (!x, !x) {
    // CHECK: %[[S:.*]] = sluice.scope "attn" role "attention" -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>> {
    %s = sluice.scope "attn" role "attention" -> !x {
      // CHECK: sluice.add %[[A]], %[[X]]
      %t = sluice.add %a, %x : (!x, !x) -> !x
      sluice.yield %t : !x
    }
    // CHECK: sluice.yield %[[S]], %[[A]] :
    sluice.yield %s, %a : !x, !x
  }
  // Several results, an attribute, no role, no result.
  // CHECK: %{{.*}}:2 = sluice.scope "two" attributes {sluice.layer = 1 : i64} -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<4xf32> {
  %two:2 = sluice.scope "two" attributes {sluice.layer = 1 : i64} -> !x, tensor<4xf32> {
    sluice.yield %y#0, %plain : !x, tensor<4xf32>
  }
  // CHECK: sluice.scope "reports" {
  sluice.scope "reports" {
    // CHECK: sluice.observe "hidden" %[[R]]#0 : tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
    sluice.observe "hidden" %y#0 : !x
    // CHECK: sluice.router_z
    %z = sluice.router_z %l, %tokens : (!scores, !ids) -> tensor<f32>
    // CHECK: sluice.auxiliary_loss "router_z" %{{.*}} weight 1.000000e-03 : tensor<f32>
    sluice.auxiliary_loss "router_z" %z weight 0.001 : tensor<f32>
    // CHECK: sluice.yield
    sluice.yield
  }
  %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "softmax", renormalize = true} : (!scores) -> (!routing, !gates, !scores)
  %rows = sluice.dispatch %x by %r : (!x, !routing) -> !rows
  // CHECK: sluice.experts by %{{.*}} : !sluice.routing<experts = 3, top_k = 2, tokens = "batch*seq"> (%[[ROW:.*]] = %{{.*}}) : (tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>) -> tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>> {
  %e = sluice.experts by %r : !routing (%row = %rows) : (!rows) -> !rows {
    // CHECK: sluice.linear %[[ROW]]
    %o = sluice.linear %row, %full : (!rows, tensor<4x4xf32>) -> !rows
    sluice.yield %o : !rows
  }
  // CHECK: sluice.return %{{.*}}, %[[R]]#1 ["rows", "y"] : tensor<?x4xf32, #sluice.dims<"2*batch*seq", _>>, tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
  sluice.return %e, %y#1 ["rows", "y"] : !rows, !x
}

// CHECK-LABEL: sluice.graph @states(
// CHECK-SAME: attributes {input_names = ["seed"]}
sluice.graph @states(%0: tensor<1xi64>) attributes {input_names = ["seed"]} {
  // CHECK: %[[W:.*]] = sluice.read @w : tensor<2x3xf32>
  %w = sluice.read @w : tensor<2x3xf32>
  // CHECK: sluice.write @w, %[[W]] : tensor<2x3xf32>
  sluice.write @w, %w : tensor<2x3xf32>
  // CHECK: sluice.accumulate @w, %[[W]] : tensor<2x3xf32>
  sluice.accumulate @w, %w : tensor<2x3xf32>
  // CHECK: %[[K:.*]] = sluice.kernel "rows" {columns = 3 : i64, rows = 2 : i64} (%[[IN:.*]] = %[[W]]) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: sluice.scale %[[IN]]
  %k = sluice.kernel "rows" {columns = 3 : i64, rows = 2 : i64} (%in = %w) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
    %s = sluice.scale %in {factor = 2.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    sluice.yield %s : tensor<2x3xf32>
  }
  sluice.write @w, %k : tensor<2x3xf32>
  // CHECK: sluice.return []
  // CHECK-NEXT: }
  sluice.return []
}
