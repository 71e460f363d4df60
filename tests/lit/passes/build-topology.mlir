// RUN: sluice-opt %s --sluice-to-phase="phase=flatten" --sluice-build-eval --sluice-differentiate --sluice-build-apply --sluice-build-topology --sluice-build-init | FileCheck %s
// A mask that grows by gradient: the sums of whole gradients and the update as entry points of their own.

// CHECK-DAG: sluice.state @w.mask : !sluice.mask<[4, 8], kept = 12, "unstructured"> init #sluice.random_mask role "mask" of "w"
// CHECK-DAG: sluice.state @w.age : tensor<4x8xf32> init #sluice.fill<0.000000e+00 : f64> role "age"
// CHECK-DAG: sluice.state @w.dense_gradient {{.*}} role "dense_gradient"

// CHECK-LABEL: sluice.graph @accumulate(
// CHECK: %[[D:.*]] = sluice.masked_weight_gradient
// CHECK: sluice.accumulate @w.gradient, %[[D]]

// CHECK-LABEL: sluice.graph @apply
// CHECK: sluice.masked_adamw
// CHECK: sluice.write @w.age

// CHECK-LABEL: sluice.graph @accumulate_dense
// CHECK: %[[W:.*]] = sluice.contract {{.*}} "abo,abi->oi"
// CHECK: %[[K:.*]] = sluice.apply_mask %[[W]]
// CHECK: sluice.accumulate @w.dense_gradient, %[[W]]
// CHECK: sluice.accumulate @w.gradient, %[[K]]

// CHECK-LABEL: sluice.graph @update_topology
// CHECK-SAME: input_names = ["seed", "step", "amount", "removed"]
// CHECK: sluice.update_mask {{.*}} {drop = "signed", grow = "gradient", restart = 5.000000e+00 : f64
// CHECK-DAG: sluice.write @w.mask
// CHECK-DAG: sluice.write @w.dense_gradient

// CHECK-LABEL: sluice.graph @init
// CHECK: %[[M:.*]] = sluice.random_mask
// CHECK: sluice.write @w.mask, %[[M]]
// CHECK: %[[N:.*]] = sluice.random_normal {{.*}} stream = "w",
// CHECK: sluice.apply_mask %[[N]], %[[M]]
module attributes {sluice.training = {sparsity = {method = "rigl", drop = "signed", restart = 5 : i64, ramp = 20 : i64}}} {
  sluice.graph @model(%tokens: tensor<2x5xi32>, %targets: tensor<2x5xi32>) {
    %t = sluice.param "table" init #sluice.normal<0.02> role "embedding" : tensor<11x8xf32>
    %x = sluice.embedding %tokens, %t : (tensor<2x5xi32>, tensor<11x8xf32>) -> tensor<2x5x8xf32>
    %w = sluice.param "w" init #sluice.normal<0.02> role "mlp" : tensor<4x8xf32>
    %m = sluice.param_mask "w" : !sluice.mask<[4, 8], kept = 12, "unstructured">
    %y = sluice.linear %x, %w mask %m : (tensor<2x5x8xf32>, tensor<4x8xf32>, !sluice.mask<[4, 8], kept = 12, "unstructured">) -> tensor<2x5x4xf32>
    %loss = sluice.cross_entropy %y, %targets : (tensor<2x5x4xf32>, tensor<2x5xi32>) -> tensor<f32>
    sluice.return %loss ["loss_sum"] : tensor<f32>
  }
}
