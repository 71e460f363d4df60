// RUN: sluice-opt %s --split-input-file --sluice-store-kept | FileCheck %s
!m = !sluice.mask<[2, 4], kept = 3, "unstructured">
module {
  // CHECK: sluice.state @w : tensor<3xf32>
  // CHECK-SAME: sluice.kept_by = @w.mask
  sluice.state @w : tensor<2x4xf32> init #sluice.fill<1.000000e+00> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0
  sluice.state @w.mask : !m init #sluice.random_mask role "mask" of "w" kind "mlp" checkpoint "w.mask" decay false experts 0 active 0
  // CHECK: sluice.state @w.gradient : tensor<3xf32>
  sluice.state @w.gradient : tensor<2x4xf32> init #sluice.fill<0.000000e+00> role "gradient" of "w" kind "mlp" checkpoint "w.gradient" decay false experts 0 active 0
  sluice.graph @accumulate(%x: tensor<3x4xf32>, %dy: tensor<3x2xf32>) {
    // CHECK: %[[W:.*]] = sluice.read @w : tensor<3xf32>
    %w = sluice.read @w : tensor<2x4xf32>
    %m = sluice.read @w.mask : !m
    // CHECK: sluice.linear %{{.*}}, %[[W]] mask
    %y = sluice.linear %x, %w mask %m {sluice.skip_at_most = 4 : i64} : (tensor<3x4xf32>, tensor<2x4xf32>, !m) -> tensor<3x2xf32>
    // CHECK: %[[DW:.*]] = sluice.masked_weight_gradient
    // CHECK-SAME: kept_only
    // CHECK-SAME: -> tensor<3xf32>
    %dw = sluice.masked_weight_gradient %dy, %x, %m {sluice.skip_at_most = 4 : i64} : (tensor<3x2xf32>, tensor<3x4xf32>, !m) -> tensor<2x4xf32>
    // CHECK: sluice.accumulate @w.gradient, %[[DW]] {sluice.whole_elements = 8 : i64} : tensor<3xf32>
    sluice.accumulate @w.gradient, %dw : tensor<2x4xf32>
    sluice.return %y ["y"] : tensor<3x2xf32>
  }
  sluice.graph @init(%seed: tensor<1xi64>) {
    %m = sluice.read @w.mask : !m
    %one = sluice.constant {value = 1.000000e+00 : f64, shape = array<i64: 2, 4>} : () -> tensor<2x4xf32>
    // CHECK: %[[KEPT:.*]] = sluice.apply_mask
    // CHECK-SAME: kept_only
    // CHECK-SAME: -> tensor<3xf32>
    %kept = sluice.apply_mask %one, %m : (tensor<2x4xf32>, !m) -> tensor<2x4xf32>
    // CHECK: sluice.write @w, %[[KEPT]] : tensor<3xf32>
    sluice.write @w, %kept : tensor<2x4xf32>
    // CHECK: %[[ZERO:.*]] = sluice.constant
    // CHECK-SAME: tensor<3xf32>
    // CHECK: sluice.write @w.gradient, %[[ZERO]] : tensor<3xf32>
    %zero = sluice.constant {value = 0.000000e+00 : f64, shape = array<i64: 2, 4>} : () -> tensor<2x4xf32>
    sluice.write @w.gradient, %zero : tensor<2x4xf32>
    sluice.return []
  }
}

// -----

// A product that multiplies zeros reads the whole matrix.
!m = !sluice.mask<[2, 4], kept = 3, "unstructured">
module {
  // CHECK: sluice.state @w : tensor<2x4xf32>
  sluice.state @w : tensor<2x4xf32> init #sluice.fill<1.000000e+00> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0
  sluice.state @w.mask : !m init #sluice.random_mask role "mask" of "w" kind "mlp" checkpoint "w.mask" decay false experts 0 active 0
  sluice.graph @model(%x: tensor<3x4xf32>) {
    %w = sluice.read @w : tensor<2x4xf32>
    %m = sluice.read @w.mask : !m
    // CHECK: sluice.linear {{.*}} tensor<2x4xf32>
    %y = sluice.linear %x, %w mask %m {sluice.skip_at_most = 2 : i64} : (tensor<3x4xf32>, tensor<2x4xf32>, !m) -> tensor<3x2xf32>
    sluice.return %y ["y"] : tensor<3x2xf32>
  }
}

// -----

// Matrices of experts: [experts, kept].
!m = !sluice.mask<[2, 2, 4], kept = 3, "unstructured">
!r = !sluice.routing<experts = 2, top_k = 1, tokens = "6">
module {
  // CHECK: sluice.state @w : tensor<2x3xf32>
  // CHECK-SAME: sluice.kept_by = @w.mask
  sluice.state @w : tensor<2x2x4xf32> init #sluice.fill<1.000000e+00> role "parameter" of "w" kind "experts" checkpoint "w" decay true experts 2 active 1
  sluice.state @w.mask : !m init #sluice.random_mask role "mask" of "w" kind "experts" checkpoint "w.mask" decay false experts 2 active 1
  // CHECK: sluice.state @w.gradient : tensor<2x3xf32>
  sluice.state @w.gradient : tensor<2x2x4xf32> init #sluice.fill<0.000000e+00> role "gradient" of "w" kind "experts" checkpoint "w.gradient" decay false experts 2 active 1
  sluice.graph @accumulate(%x: tensor<6x4xf32>, %dy: tensor<6x2xf32>, %r: !r) {
    %w = sluice.read @w : tensor<2x2x4xf32>
    %m = sluice.read @w.mask : !m
    // CHECK: sluice.grouped_linear {{.*}} (tensor<6x4xf32>, tensor<2x3xf32>, {{.*}}) -> tensor<6x2xf32>
    %y = sluice.grouped_linear %x, %w by %r mask %m {sluice.skip_at_most = 4 : i64} : (tensor<6x4xf32>, tensor<2x2x4xf32>, !r, !m) -> tensor<6x2xf32>
    // CHECK: sluice.grouped_weight_gradient
    // CHECK-SAME: kept_only
    // CHECK-SAME: -> tensor<2x3xf32>
    %dw = sluice.grouped_weight_gradient %dy, %x, %r, %m {sluice.skip_at_most = 4 : i64} : (tensor<6x2xf32>, tensor<6x4xf32>, !r, !m) -> tensor<2x2x4xf32>
    // CHECK: sluice.accumulate @w.gradient, %{{.*}} {sluice.whole_elements = 16 : i64} : tensor<2x3xf32>
    sluice.accumulate @w.gradient, %dw : tensor<2x2x4xf32>
    sluice.return %y ["y"] : tensor<6x2xf32>
  }
}
