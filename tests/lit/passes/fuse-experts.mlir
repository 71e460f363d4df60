// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=fuse-experts bindings=batch=2,seq=3" | FileCheck %s
// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=fuse-experts bindings=batch=2,seq=3" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Two layers forward, then the second layer's backward and the first one's. Nothing grouped stays outside of kernels.
// CHECK: sluice.graph @accumulate
// CHECK: %[[N:.*]], %{{.*}} = sluice.rms_norm {{.*}}#sluice.origin<"layers.0.moe"
// CHECK: %[[R:[a-z0-9_]*]], %[[GATES:[a-z0-9_]*]], %{{.*}} = sluice.route
// CHECK: %[[UP:.*]]:3 = sluice.kernel "experts_up" {top_k = 2 : i64} (%{{.*}} = %[[N]], %{{.*}} = %[[R]], %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : (tensor<2x3x4xf32>, !sluice.routing<experts = 3, top_k = 2, tokens = "6">, tensor<3x5x4xf32>, tensor<3x5x4xf32>) -> (tensor<12x5xf32>, tensor<12x5xf32>, tensor<12x5xf32>)
// CHECK-NEXT: sluice.dispatch
// CHECK-NEXT: sluice.grouped_linear
// CHECK-NEXT: sluice.grouped_linear
// CHECK-NEXT: sluice.swiglu
// CHECK-NEXT: sluice.yield
// CHECK: %[[DOWN:.*]]:2 = sluice.kernel "experts_down" {top_k = 2 : i64} (%{{.*}} = %[[UP]]#2, %{{.*}} = %[[R]], %{{.*}} = %[[GATES]], %{{.*}} = %{{.*}}) : {{.*}} -> (tensor<12x4xf32>, tensor<2x3x4xf32>)
// CHECK-NEXT: sluice.grouped_linear
// CHECK-NEXT: sluice.combine
// CHECK: sluice.kernel "experts_up"
// CHECK: sluice.kernel "experts_down"

// CHECK: sluice.kernel "experts_down_gradient"
// CHECK: sluice.kernel "experts_up_gradient"
// CHECK: %[[D:.*]]:3 = sluice.kernel "experts_down_gradient" {top_k = 2 : i64} (%{{.*}} = %[[DOUT:.*]], %{{.*}} = %[[R]], %{{.*}} = %[[GATES]], %{{.*}} = %{{.*}}, %{{.*}} = %[[UP]]#0, %{{.*}} = %[[UP]]#1, %{{.*}} = %[[DOWN]]#0) : {{.*}} -> (tensor<2x3x2xf32>, tensor<12x5xf32>, tensor<12x5xf32>)
// CHECK-DAG: sluice.kernel "experts_down_weight_gradient" {top_k = 2 : i64} (%{{.*}} = %[[DOUT]], %{{.*}} = %[[R]], %{{.*}} = %[[GATES]], %{{.*}} = %[[UP]]#2) : {{.*}} -> tensor<3x4x5xf32>
// CHECK-DAG: sluice.kernel "experts_up_gradient" {top_k = 2 : i64} (%{{.*}} = %[[D]]#1, %{{.*}} = %[[D]]#2, %{{.*}} = %[[R]], %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : {{.*}} -> tensor<2x3x4xf32>
// CHECK-DAG: sluice.kernel "experts_up_weight_gradient" {top_k = 2 : i64} (%{{.*}} = %[[N]], %{{.*}} = %[[R]], %{{.*}} = %[[D]]#1, %{{.*}} = %[[D]]#2) : {{.*}} -> (tensor<3x5x4xf32>, tensor<3x5x4xf32>)

// The other entry points run the forward kernels.
// CHECK: sluice.graph @logits
// CHECK: sluice.kernel "experts_up"
// CHECK: sluice.kernel "experts_down"
// CHECK: sluice.graph @eval
// CHECK: sluice.kernel "experts_up"

// REMARK-DAG: fused in 'layers.1.moe.experts': experts_up from 4 ops
// REMARK-DAG: fused in 'layers.0.moe.experts': experts_down_gradient from 5 ops
// REMARK-DAG: fused in 'layers.0.moe.experts': experts_up_gradient from 5 ops
