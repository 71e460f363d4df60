// RUN: sluice-opt %s --sluice-form-commands | FileCheck %s

#o = #sluice.origin<"a", 0, "mlp", "forward">
!x = tensor<6x4xf32>
!w = tensor<4x4xf32>
sluice.state @w : !w init #sluice.fill<1.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0 {sluice.origin = #o}
sluice.state @w.gradient : !w init #sluice.fill<0.0 : f64> role "gradient" of "w" kind "mlp" checkpoint "" decay true experts 0 active 0 {sluice.origin = #o}

// Reads and reshapes name memory that exists; the gradient sum folds into the product that computes its value, which has no
// result then; it waits for the command whose result it reads.
// CHECK-LABEL: sluice.graph @accumulate(
// CHECK: %[[W:.*]] = sluice.read @w
// CHECK: %[[Y:.*]] = plan.command 0 "gemm" {{.*}} states [] after []
// CHECK: sluice.linear
// CHECK: %[[V:.*]] = sluice.reshape %[[Y]]
// CHECK: plan.command 1 "gemm" {{.*}}accumulate = 1 : i64{{.*}} states [@w.gradient] after [0] {{.*}} -> ()
// CHECK: %[[D:.*]] = sluice.contract
// CHECK: %[[S:.*]] = sluice.add
// CHECK: sluice.yield %[[S]]
// CHECK-NOT: sluice.accumulate
// CHECK-NOT: plan.command
// CHECK: sluice.return %[[V]]
sluice.graph @accumulate(%x: !x) {
  %w = sluice.read @w {sluice.origin = #o} : !w
  %y = sluice.linear %x, %w {sluice.origin = #o} : (!x, !w) -> !x
  %v = sluice.reshape %y {shape = array<i64: 2, 12>, sluice.origin = #o} : (!x) -> tensor<2x12xf32>
  %d = sluice.contract %y, %x {equation = "to,ti->oi", sluice.origin = #o} : (!x, !x) -> !w
  sluice.accumulate @w.gradient, %d {sluice.origin = #o} : !w
  sluice.return %v ["v"] {sluice.origin = #o} : tensor<2x12xf32>
}

// A write folds in too, and the packed copies of parameters follow at the end.
// CHECK-LABEL: sluice.graph @init(
// CHECK: plan.command 0 "random_normal" {{.*}} states [@w] after []
// CHECK: plan.command 1 "refresh_derived_state" {{.*}} after [0]
// CHECK: sluice.return []
sluice.graph @init(%seed: tensor<1xi64>) {
  %w = sluice.random_normal %seed {stream = "w", standard_deviation = 0.02 : f64, type = !w, sluice.origin = #o} : (tensor<1xi64>) -> !w
  sluice.write @w, %w {sluice.origin = #o} : !w
  sluice.return [] {sluice.origin = #o}
}
