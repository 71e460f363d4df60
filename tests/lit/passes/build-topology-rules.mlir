// RUN: sluice-opt %s --sluice-to-phase="phase=flatten" --sluice-build-eval --sluice-differentiate --sluice-build-apply --sluice-build-topology | FileCheck %s
// Three rules: a mask that grows by gradient, one that is pruned, one that stays. Only what moves has ages and is updated, by the
// share of its own kind.

// CHECK: sluice.state @a.dense_gradient
// CHECK-NOT: sluice.state @{{[bc]}}.dense_gradient
// CHECK: sluice.state @a.age
// CHECK-NOT: sluice.state @c.age

// CHECK-LABEL: sluice.graph @accumulate_dense
// CHECK: sluice.accumulate @a.dense_gradient

// CHECK-LABEL: sluice.graph @update_topology
// CHECK-SAME: (%[[SEED:.*]]: tensor<1xi64>, %[[STEP:.*]]: tensor<1xi64>, %[[AMOUNT:.*]]: tensor<1xi64>, %[[REMOVED:.*]]: tensor<1xi64>)
// CHECK: sluice.update_mask {{.*}} at %[[SEED]], %[[STEP]], %[[AMOUNT]] {{.*}}drop = "soft", grow = "gradient"{{.*}}stream = "a.mask"
// CHECK: sluice.update_mask {{.*}} at %[[SEED]], %[[STEP]], %[[REMOVED]] {{.*}}grow = "none"{{.*}}stream = "b.mask", target = 16
// CHECK-NOT: c.mask
module attributes {sluice.training = {sparsity = {restart = 5 : i64, rules = [{method = "rigl", drop = "soft"}, {method = "gradual"}, {method = "static"}]}}} {
  sluice.graph @model(%tokens: tensor<2x5xi32>, %targets: tensor<2x5xi32>) {
    %t = sluice.param "table" init #sluice.normal<0.02> role "embedding" : tensor<11x8xf32>
    %x = sluice.embedding %tokens, %t : (tensor<2x5xi32>, tensor<11x8xf32>) -> tensor<2x5x8xf32>
    %a = sluice.param "a" init #sluice.normal<0.02> role "mlp" : tensor<8x8xf32>
    %am = sluice.param_mask "a" {sluice.rule = 0 : i64} : !sluice.mask<[8, 8], kept = 16, "block:2x2">
    %y = sluice.linear %x, %a mask %am : (tensor<2x5x8xf32>, tensor<8x8xf32>, !sluice.mask<[8, 8], kept = 16, "block:2x2">) -> tensor<2x5x8xf32>
    %b = sluice.param "b" init #sluice.normal<0.02> role "mlp" : tensor<8x8xf32>
    %bm = sluice.param_mask "b" {sluice.rule = 1 : i64, sluice.target = 16 : i64} : !sluice.mask<[8, 8], kept = 64, "unstructured">
    %z = sluice.linear %y, %b mask %bm : (tensor<2x5x8xf32>, tensor<8x8xf32>, !sluice.mask<[8, 8], kept = 64, "unstructured">) -> tensor<2x5x8xf32>
    %c = sluice.param "c" init #sluice.normal<0.02> role "mlp" : tensor<4x8xf32>
    %cm = sluice.param_mask "c" {sluice.rule = 2 : i64} : !sluice.mask<[4, 8], kept = 16, "2:4">
    %l = sluice.linear %z, %c mask %cm : (tensor<2x5x8xf32>, tensor<4x8xf32>, !sluice.mask<[4, 8], kept = 16, "2:4">) -> tensor<2x5x4xf32>
    %loss = sluice.cross_entropy %l, %targets : (tensor<2x5x4xf32>, tensor<2x5xi32>) -> tensor<f32>
    sluice.return %loss ["loss_sum"] : tensor<f32>
  }
}
