// RUN: not sluice-opt %s --sluice-check-lowering 2>&1 | FileCheck %s

// Everything that is left over comes in one report.
// CHECK: error: 2 op(s) have no lowering for device 'cpu'
// CHECK: note: sluice.map in 'layers.3.block': neither a library command nor made of primitives
// CHECK: note: sluice.reduce in 'layers.4.block'
sluice.graph @logits(%x: tensor<2x3xf32>) {
  %y = sluice.map (%a = %x) : (tensor<2x3xf32>) -> tensor<2x3xf32> attributes {sluice.origin = #sluice.origin<"layers.3.block", 3, "mlp", "forward">} {
    sluice.yield %a : f32
  }
  %z = sluice.reduce %y {axes = array<i64: 0>, sluice.origin = #sluice.origin<"layers.4.block", 4, "mlp", "forward">} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  sluice.return %z ["z"] : tensor<1x3xf32>
}
