// RUN: sluice-opt %s --sluice-dissolve-scopes --split-input-file --verify-diagnostics | FileCheck %s

// Paths become origins, parameters become state that both graphs share; {layer} is filled in, {expert} stays.
// CHECK: sluice.state @layers.1.attn.w : tensor<2x2xf32> init #sluice.normal<2.000000e-02 : f64> role "parameter" of "layers.1.attn.w" kind "attention" checkpoint "model.layers.1.w.weight" decay true experts 0 active 0
// CHECK: sluice.state @b : tensor<2xf32> init #sluice.fill<0.000000e+00 : f64> role "parameter" of "b" kind "bias" checkpoint "b" decay false experts 0 active 0
// CHECK-NOT: sluice.state
// CHECK: sluice.graph @model
// CHECK: %[[W:.*]] = sluice.read @layers.1.attn.w {sluice.origin = #sluice.origin<"layers.1.attn", 1, "attention", "forward">}
// CHECK: %[[Y:.*]] = sluice.linear %{{.*}}, %[[W]] {sluice.origin = #sluice.origin<"layers.1.attn", 1, "attention", "forward">}
// CHECK: sluice.read @b {sluice.origin = #sluice.origin<"", -1, "bias", "forward">}
// CHECK: sluice.return %[[Y]]
// CHECK: sluice.graph @logits
// CHECK: sluice.read @layers.1.attn.w
sluice.graph @model(%x: tensor<3x2xf32>) {
  %y = sluice.scope "layers.1" attributes {sluice.layer = 1 : i64} -> tensor<3x2xf32> {
    %a = sluice.scope "attn" role "attention" -> tensor<3x2xf32> {
      %w = sluice.param "w" init #sluice.normal<0.02 : f64> role "attention" checkpoint "model.layers.{layer}.w.weight" : tensor<2x2xf32>
      %l = sluice.linear %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
      sluice.yield %l : tensor<3x2xf32>
    }
    sluice.yield %a : tensor<3x2xf32>
  }
  %b = sluice.param "b" init #sluice.fill<0.0 : f64> role "bias" : tensor<2xf32>
  sluice.return %y ["logits"] : tensor<3x2xf32>
}
sluice.graph @logits(%x: tensor<3x2xf32>) {
  %y = sluice.scope "layers.1" attributes {sluice.layer = 1 : i64} -> tensor<3x2xf32> {
    %a = sluice.scope "attn" role "attention" -> tensor<3x2xf32> {
      %w = sluice.param "w" init #sluice.normal<0.02 : f64> role "attention" checkpoint "model.layers.{layer}.w.weight" : tensor<2x2xf32>
      %l = sluice.linear %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
      sluice.yield %l : tensor<3x2xf32>
    }
    sluice.yield %a : tensor<3x2xf32>
  }
  sluice.return %y ["logits"] : tensor<3x2xf32>
}

// -----

sluice.graph @model(%x: tensor<3x2xf32>) {
  %a = sluice.param "w" init #sluice.fill<0.0 : f64> role "mlp" : tensor<2x2xf32>
  // expected-error @below {{two parameters are called 'w'; names must differ within a scope}}
  %b = sluice.param "w" init #sluice.fill<0.0 : f64> role "mlp" : tensor<2x2xf32>
  sluice.return %a, %b ["a", "b"] : tensor<2x2xf32>, tensor<2x2xf32>
}
