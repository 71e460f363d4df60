// RUN: sluice-opt %s --sluice-unroll-repeats | FileCheck %s

// Two nested repeats: scopes named by repeat and iteration, values carried along, captured values shared.
// CHECK: sluice.graph @model(%[[X:.*]]: tensor<2xf32>, %[[C:.*]]: tensor<2xf32>)
// CHECK: %[[A:.*]] = sluice.scope "outer.0" attributes {sluice.layer = 0 : i64} -> tensor<2xf32> {
// CHECK:   %[[B:.*]] = sluice.scope "inner.0" attributes {sluice.layer = 0 : i64}
// CHECK:     sluice.add %[[X]], %[[C]]
// CHECK:   sluice.scope "inner.1" attributes {sluice.layer = 1 : i64}
// CHECK:     sluice.add %[[B]], %[[C]]
// CHECK: sluice.scope "outer.1" attributes {sluice.layer = 1 : i64}
// CHECK:     sluice.add %[[A]], %[[C]]
// CHECK-NOT: sluice.repeat
sluice.graph @model(%x: tensor<2xf32>, %c: tensor<2xf32>) {
  %y = sluice.repeat "outer" times 2 (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %z = sluice.repeat "inner" times 2 (%b = %a) : (tensor<2xf32>) -> tensor<2xf32> {
      %s = sluice.add %b, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      sluice.yield %s : tensor<2xf32>
    }
    sluice.yield %z : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<2xf32>
}

// Layers that differ: a second repeat of the name goes on counting.
// CHECK: sluice.graph @two
// CHECK: sluice.scope "layers.0" attributes {sluice.layer = 0 : i64}
// CHECK: sluice.scope "layers.1" attributes {sluice.layer = 1 : i64}
// CHECK: sluice.scope "layers.2" attributes {sluice.layer = 2 : i64}
sluice.graph @two(%x: tensor<2xf32>) {
  %y = sluice.repeat "layers" times 1 (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    sluice.yield %a : tensor<2xf32>
  }
  %z = sluice.repeat "layers" times 2 (%a = %y) : (tensor<2xf32>) -> tensor<2xf32> attributes {first = 1 : i64} {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return %z ["z"] : tensor<2xf32>
}
