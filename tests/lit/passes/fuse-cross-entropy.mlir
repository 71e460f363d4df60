// RUN: sluice-opt %s --sluice-fuse-cross-entropy --split-input-file --verify-diagnostics | FileCheck %s

#h = #sluice.origin<"head", -1, "head", "forward">
#b = #sluice.origin<"head", -1, "head", "backward">
!x = tensor<6x4xf32>
!w = tensor<7x4xf32>
!l = tensor<6x7xf32>
!t = tensor<6xi32>

// The projection and its loss alone: evaluation.
// CHECK-LABEL: sluice.graph @eval(
// CHECK-SAME: %[[X:.*]]: tensor<6x4xf32>, %[[W:.*]]: tensor<7x4xf32>, %[[T:.*]]: tensor<6xi32>
// CHECK-NEXT: %[[K:.*]] = sluice.kernel "linear_cross_entropy" {ignore_index = -1 : i64} (%{{.*}} = %[[X]], %{{.*}} = %[[W]], %{{.*}} = %[[T]]) : (tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32>) -> tensor<f32>
// CHECK-NEXT: sluice.linear
// CHECK-NEXT: sluice.cross_entropy
// CHECK-NEXT: sluice.yield
// CHECK-NEXT: }
// CHECK-NEXT: sluice.return %[[K]]
sluice.graph @eval(%x: !x, %w: !w, %t: !t) {
  %z = sluice.linear %x, %w {sluice.origin = #h} : (!x, !w) -> !l
  %loss = sluice.cross_entropy %z, %t {ignore_index = -1 : i64, sluice.origin = #h} : (!l, !t) -> tensor<f32>
  sluice.return %loss ["loss_sum"] {sluice.origin = #h} : tensor<f32>
}

// With the gradient and its two products: x, weight, targets, g to loss, dx, dweight.
// CHECK-LABEL: sluice.graph @accumulate(
// CHECK-SAME: %[[X:.*]]: tensor<6x4xf32>, %[[W:.*]]: tensor<7x4xf32>, %[[T:.*]]: tensor<6xi32>, %[[G:.*]]: tensor<f32>
// CHECK-NEXT: %[[K:.*]]:3 = sluice.kernel "linear_cross_entropy_gradient" {ignore_index = -100 : i64} (%{{.*}} = %[[X]], %{{.*}} = %[[W]], %{{.*}} = %[[T]], %{{.*}} = %[[G]]) : (tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32>, tensor<f32>) -> (tensor<f32>, tensor<6x4xf32>, tensor<7x4xf32>)
// CHECK: sluice.return %[[K]]#0, %[[K]]#1, %[[K]]#2
sluice.graph @accumulate(%x: !x, %w: !w, %t: !t, %g: tensor<f32>) {
  %z = sluice.linear %x, %w {sluice.origin = #h} : (!x, !w) -> !l
  %loss = sluice.cross_entropy %z, %t {sluice.origin = #h} : (!l, !t) -> tensor<f32>
  %dz = sluice.cross_entropy_gradient %z, %t, %g {sluice.origin = #b} : (!l, !t, tensor<f32>) -> !l
  %dx = sluice.contract %dz, %w {equation = "tv,vd->td", sluice.origin = #b} : (!l, !w) -> !x
  %dw = sluice.contract %dz, %x {equation = "tv,td->vd", sluice.origin = #b} : (!l, !x) -> !w
  sluice.return %loss, %dx, %dw ["loss_sum", "dx", "dw"] {sluice.origin = #b} : tensor<f32>, !x, !w
}

// -----

#h = #sluice.origin<"head", -1, "head", "forward">
// CHECK-LABEL: sluice.graph @read_elsewhere
// CHECK-NOT: sluice.kernel
sluice.graph @read_elsewhere(%x: tensor<6x4xf32>, %w: tensor<7x4xf32>, %t: tensor<6xi32>) {
  %z = sluice.linear %x, %w {sluice.origin = #h} : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<6x7xf32>
  // expected-remark @+1 {{all logits are kept: the logits are read by sluice.router_z too}}
  %loss = sluice.cross_entropy %z, %t {sluice.origin = #h} : (tensor<6x7xf32>, tensor<6xi32>) -> tensor<f32>
  %aux = sluice.router_z %z, %t {sluice.origin = #h} : (tensor<6x7xf32>, tensor<6xi32>) -> tensor<f32>
  sluice.return %loss, %aux ["loss_sum", "aux"] {sluice.origin = #h} : tensor<f32>, tensor<f32>
}

// -----

#h = #sluice.origin<"head", -1, "head", "forward">
// CHECK-LABEL: sluice.graph @other_targets
// CHECK-NOT: sluice.kernel
sluice.graph @other_targets(%x: tensor<6x4xf32>, %w: tensor<7x4xf32>, %t: tensor<6xi32>, %u: tensor<6xi32>, %g: tensor<f32>) {
  %z = sluice.linear %x, %w {sluice.origin = #h} : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<6x7xf32>
  // expected-remark @+1 {{all logits are kept: loss and gradient read different targets}}
  %loss = sluice.cross_entropy %z, %t {sluice.origin = #h} : (tensor<6x7xf32>, tensor<6xi32>) -> tensor<f32>
  %dz = sluice.cross_entropy_gradient %z, %u, %g {sluice.origin = #h} : (tensor<6x7xf32>, tensor<6xi32>, tensor<f32>) -> tensor<6x7xf32>
  sluice.return %loss, %dz ["loss_sum", "dz"] {sluice.origin = #h} : tensor<f32>, tensor<6x7xf32>
}
