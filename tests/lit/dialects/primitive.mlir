// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// The primitives: what is printed parses to the same again.

// CHECK-LABEL: sluice.graph @primitives
sluice.graph @primitives(%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>, %g: tensor<4xf32>, %i: tensor<3xi32>) {
  // CHECK: sluice.map (%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: %[[C:.*]] = arith.mulf %[[A]], %[[B]] : f32
  // CHECK-NEXT: sluice.yield %[[C]] : f32
  %m = sluice.map (%a = %x, %b = %g) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32> {
    %c = arith.mulf %a, %b : f32
    sluice.yield %c : f32
  }
  // CHECK: sluice.reduce %{{.*}} {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  %r = sluice.reduce %m {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  // CHECK: sluice.reduce %{{.*}} {axes = array<i64: 0, 1>, kind = "max"} : (tensor<2x3x4xf32>) -> tensor<1x1x4xf32>
  %x1 = sluice.reduce %m {axes = array<i64: 0, 1>, kind = "max"} : (tensor<2x3x4xf32>) -> tensor<1x1x4xf32>
  // CHECK: sluice.broadcast %{{.*}} {shape = array<i64: 2, 3, 4>} : (tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %b2 = sluice.broadcast %r {shape = array<i64: 2, 3, 4>} : (tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  // CHECK: sluice.contract %{{.*}}, %{{.*}} {equation = "bsi,oi->bso"} : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>
  %c2 = sluice.contract %b2, %w {equation = "bsi,oi->bso"} : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>
  // CHECK: sluice.reshape %{{.*}} {shape = array<i64: 6, -1>} : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  %s = sluice.reshape %c2 {shape = array<i64: 6, -1>} : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  // CHECK: sluice.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<6x5xf32>) -> tensor<5x6xf32>
  %t = sluice.transpose %s {permutation = array<i64: 1, 0>} : (tensor<6x5xf32>) -> tensor<5x6xf32>
  // CHECK: sluice.slice %{{.*}} {offsets = array<i64: 1, 0>, sizes = array<i64: 2, -1>} : (tensor<5x6xf32>) -> tensor<2x6xf32>
  %l = sluice.slice %t {offsets = array<i64: 1, 0>, sizes = array<i64: 2, -1>} : (tensor<5x6xf32>) -> tensor<2x6xf32>
  // CHECK: sluice.pad %{{.*}} {offsets = array<i64: 1, 0>, shape = array<i64: 5, 6>} : (tensor<2x6xf32>) -> tensor<5x6xf32>
  %p = sluice.pad %l {offsets = array<i64: 1, 0>, shape = array<i64: 5, 6>} : (tensor<2x6xf32>) -> tensor<5x6xf32>
  // CHECK: sluice.concat %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<5x6xf32>, tensor<2x6xf32>) -> tensor<7x6xf32>
  %k = sluice.concat %p, %l {axis = 0 : i64} : (tensor<5x6xf32>, tensor<2x6xf32>) -> tensor<7x6xf32>
  // CHECK: sluice.gather %{{.*}}, %{{.*}} : (tensor<7x6xf32>, tensor<3xi32>) -> tensor<3x6xf32>
  %h = sluice.gather %k, %i : (tensor<7x6xf32>, tensor<3xi32>) -> tensor<3x6xf32>
  // CHECK: sluice.gather_gradient %{{.*}}, %{{.*}} {rows = 7 : i64} : (tensor<3xi32>, tensor<3x6xf32>) -> tensor<7x6xf32>
  %d = sluice.gather_gradient %i, %h {rows = 7 : i64} : (tensor<3xi32>, tensor<3x6xf32>) -> tensor<7x6xf32>
  // CHECK: sluice.constant {shape = array<i64: 7, 6>, value = 1.000000e-01 : f64} : () -> tensor<7x6xf32>
  %o = sluice.constant {shape = array<i64: 7, 6>, value = 0.1 : f64} : () -> tensor<7x6xf32>
  sluice.return %d, %o ["d", "o"] : tensor<7x6xf32>, tensor<7x6xf32>
}

// CHECK-LABEL: sluice.graph @named
// Before bind, sizes have names; products of them are joined in canonical order.
sluice.graph @named(%x: tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, %w: tensor<5x4xf32>, %g: tensor<4xf32>) {
  // CHECK: sluice.map {{.*}} -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
  %m = sluice.map (%a = %x, %b = %g) : (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<4xf32>) -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>> {
    %c = arith.mulf %a, %b : f32
    sluice.yield %c : f32
  }
  // CHECK: sluice.reduce {{.*}} -> tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>
  %r = sluice.reduce %m {axes = array<i64: 2>} : (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.broadcast {{.*}} -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
  %b = sluice.broadcast %r {shape = array<i64: -1, -1, 4>} : (tensor<?x?x1xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.contract {{.*}} -> tensor<?x?x5xf32, #sluice.dims<batch, seq, _>>
  %c = sluice.contract %b, %w {equation = "bsi,oi->bso"} : (tensor<?x?x4xf32, #sluice.dims<batch, seq, _>>, tensor<5x4xf32>) -> tensor<?x?x5xf32, #sluice.dims<batch, seq, _>>
  // CHECK: sluice.reshape {{.*}} -> tensor<?x5xf32, #sluice.dims<"batch*seq", _>>
  %s = sluice.reshape %c {shape = array<i64: -1, 5>} : (tensor<?x?x5xf32, #sluice.dims<batch, seq, _>>) -> tensor<?x5xf32, #sluice.dims<"batch*seq", _>>
  // CHECK: sluice.transpose {{.*}} -> tensor<5x?xf32, #sluice.dims<_, "batch*seq">>
  %t = sluice.transpose %s {permutation = array<i64: 1, 0>} : (tensor<?x5xf32, #sluice.dims<"batch*seq", _>>) -> tensor<5x?xf32, #sluice.dims<_, "batch*seq">>
  // CHECK: sluice.slice {{.*}} -> tensor<2x?xf32, #sluice.dims<_, "batch*seq">>
  %l = sluice.slice %t {offsets = array<i64: 3, 0>, sizes = array<i64: -1, -1>} : (tensor<5x?xf32, #sluice.dims<_, "batch*seq">>) -> tensor<2x?xf32, #sluice.dims<_, "batch*seq">>
  sluice.return %l ["l"] : tensor<2x?xf32, #sluice.dims<_, "batch*seq">>
}
