// RUN: sluice-opt %s --sluice-decompose-ops | FileCheck %s

#o = #sluice.origin<"a", 0, "norm", "forward">
#b = #sluice.origin<"a", 0, "norm", "backward">
sluice.state @w.gradient : tensor<5x4xf32> init #sluice.fill<0.0 : f64> role "gradient" of "w" kind "mlp" checkpoint "" decay true experts 0 active 0 {sluice.origin = #o}

// An op without a command becomes maps and reductions that carry its origin; one with a command stays.
// CHECK-LABEL: sluice.graph @named(
// CHECK-NOT: sluice.rms_norm
// CHECK: sluice.map {{.*}}#sluice.origin<"a", 0, "norm", "forward">
// CHECK: sluice.reduce %{{.*}} {axes = array<i64: 1>, {{.*}}#sluice.origin<"a", 0, "norm", "forward">
// CHECK: math.rsqrt
// CHECK: sluice.linear
sluice.graph @named(%x: tensor<6x4xf32>, %g: tensor<4xf32>, %w: tensor<5x4xf32>) {
  %n:2 = sluice.rms_norm %x, %g {epsilon = 1.0e-5 : f64, sluice.origin = #o} : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6x1xf32>)
  %y = sluice.linear %n#0, %w {sluice.origin = #o} : (tensor<6x4xf32>, tensor<5x4xf32>) -> tensor<6x5xf32>
  sluice.return %y ["y"] {sluice.origin = #o} : tensor<6x5xf32>
}

// A kernel sums the last axis or all leading axes. The first and last sum: two trailing axes become one, the middle axis
// is moved to the front. A sum over an axis of size 1 is its operand.
// CHECK-LABEL: sluice.graph @sums(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>, %[[U:.*]]: tensor<2x1x4xf32>
// CHECK: %[[R:.*]] = sluice.reshape %[[X]] {{.*}} -> tensor<2x12xf32>
// CHECK: sluice.reduce %[[R]] {axes = array<i64: 1>, {{.*}} -> tensor<2x1xf32>
// CHECK: %[[T:.*]] = sluice.transpose %[[X]] {permutation = array<i64: 1, 0, 2>, {{.*}} -> tensor<3x2x4xf32>
// CHECK: %[[F:.*]] = sluice.reshape %[[T]] {{.*}} -> tensor<3x8xf32>
// CHECK: sluice.reduce %[[F]] {axes = array<i64: 0>, {{.*}} -> tensor<1x8xf32>
// CHECK-NOT: sluice.reduce
// CHECK: sluice.return %{{.*}}, %{{.*}}, %[[U]]
sluice.graph @sums(%x: tensor<2x3x4xf32>, %u: tensor<2x1x4xf32>) {
  %a = sluice.reduce %x {axes = array<i64: 1, 2>, sluice.origin = #o} : (tensor<2x3x4xf32>) -> tensor<2x1x1xf32>
  %b = sluice.reduce %x {axes = array<i64: 1>, sluice.origin = #o} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %c = sluice.reduce %u {axes = array<i64: 1>, sluice.origin = #o} : (tensor<2x1x4xf32>) -> tensor<2x1x4xf32>
  sluice.return %a, %b, %c ["a", "b", "c"] {sluice.origin = #o} : tensor<2x1x1xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>
}

// A gradient sum is split over its terms; a product adds to the state by itself, anything else is read, added, written.
// CHECK-LABEL: sluice.graph @gradients(
// CHECK-DAG: %[[D:.*]] = sluice.contract
// CHECK-DAG: %[[OLD:.*]] = sluice.read @w.gradient
// CHECK-DAG: sluice.accumulate @w.gradient, %[[D]]
// CHECK-DAG: %[[NEW:.*]] = sluice.map (%{{.*}} = %[[OLD]], %{{.*}} = %{{.*}})
// CHECK-DAG: sluice.write @w.gradient, %[[NEW]]
// CHECK-NOT: sluice.add
sluice.graph @gradients(%x: tensor<6x4xf32>, %d: tensor<6x5xf32>, %e: tensor<5x4xf32>) {
  %p = sluice.contract %d, %x {equation = "to,ti->oi", sluice.origin = #b} : (tensor<6x5xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
  %s = sluice.add %p, %e {sluice.origin = #b} : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  sluice.accumulate @w.gradient, %s {sluice.origin = #b} : tensor<5x4xf32>
  sluice.return [] {sluice.origin = #b}
}
