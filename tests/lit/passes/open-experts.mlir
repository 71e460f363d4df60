// RUN: sluice-opt %s --sluice-open-experts | FileCheck %s
!r = !sluice.routing<experts = 3, top_k = 2, tokens = "5">

// Parameters are stacked; linear by them is grouped; shared weights and elementwise ops stay.
// CHECK: sluice.graph @model(%{{.*}}: tensor<5x4xf32>, %[[R:.*]]: !sluice.routing
// CHECK: %[[W:.*]] = sluice.param "w" {{.*}} decay true {sluice.active = 2 : i64, sluice.experts = 3 : i64} : tensor<3x6x4xf32>
// CHECK: %[[B:.*]] = sluice.param "b" {{.*}} decay false {sluice.active = 2 : i64, sluice.experts = 3 : i64} : tensor<3x6xf32>
// CHECK: %[[H:.*]] = sluice.grouped_linear %{{.*}}, %[[W]] by %[[R]] bias %[[B]] : {{.*}} -> tensor<10x6xf32>
// CHECK: %[[A:.*]] = sluice.activation %[[H]]
// CHECK: sluice.linear %[[A]], %{{.*}} : (tensor<10x6xf32>, tensor<4x6xf32>)
// CHECK-NOT: sluice.experts
sluice.graph @model(%x: tensor<5x4xf32>, %r: !r) {
  %shared = sluice.param "shared" init #sluice.normal<0.02 : f64> role "mlp" : tensor<4x6xf32>
  %rows = sluice.dispatch %x by %r : (tensor<5x4xf32>, !r) -> tensor<10x4xf32>
  %y = sluice.experts by %r : !r (%row = %rows) : (tensor<10x4xf32>) -> tensor<10x4xf32> {
    %w = sluice.param "w" init #sluice.normal<0.02 : f64> role "expert" : tensor<6x4xf32>
    %b = sluice.param "b" init #sluice.fill<0.0 : f64> role "bias" : tensor<6xf32>
    %h = sluice.linear %row, %w bias %b : (tensor<10x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<10x6xf32>
    %a = sluice.activation %h {function = "silu"} : (tensor<10x6xf32>) -> tensor<10x6xf32>
    %o = sluice.linear %a, %shared : (tensor<10x6xf32>, tensor<4x6xf32>) -> tensor<10x4xf32>
    sluice.yield %o : tensor<10x4xf32>
  }
  sluice.return %y ["y"] : tensor<10x4xf32>
}
