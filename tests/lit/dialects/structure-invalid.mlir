// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of graphs, parameters, states, notations and kernels, broken once.

// expected-error @+1 {{'sluice.graph' op has 1 inputs but 2 input names}}
sluice.graph @g(%a: tensor<f32>) attributes {input_names = ["a", "b"]} {
  sluice.return []
}

// -----

// expected-error @+1 {{'sluice.graph' op has two inputs 'a'}}
sluice.graph @g(%a: tensor<f32>, %b: tensor<f32>) attributes {input_names = ["a", "a"]} {
  sluice.return []
}

// -----

// expected-error @+1 {{'sluice.graph' op body must end with sluice.return}}
sluice.graph @g(%a: tensor<f32>) {
  sluice.yield
}

// -----

sluice.graph @g(%a: tensor<f32>) {
  // expected-error @+1 {{'sluice.return' op returns 1 values but names 2}}
  sluice.return %a ["a", "b"] : tensor<f32>
}

// -----

sluice.graph @g(%a: tensor<f32>) {
  // expected-error @+1 {{'sluice.return' op returns two values as 'a'}}
  sluice.return %a, %a ["a", "a"] : tensor<f32>, tensor<f32>
}

// -----

sluice.graph @g() {
  // expected-error @+1 {{'sluice.param' op 'w' needs an initial value #sluice.normal<...> or #sluice.fill<...>, found "zeros"}}
  %w = sluice.param "w" init "zeros" role "mlp" : tensor<2xf32>
  sluice.return %w ["w"] : tensor<2xf32>
}

// -----

sluice.graph @g() {
  // expected-error @+1 {{'sluice.param' op 'w' must have a static shape, found [2, batch]}}
  %w = sluice.param "w" init #sluice.fill<0.0 : f64> role "mlp" : tensor<2x?xf32, #sluice.dims<_, batch>>
  sluice.return []
}

// -----

// expected-error @+1 {{'sluice.state' op 'w' must be a tensor of static shape, found 'tensor<2x?xf32>'}}
sluice.state @w : tensor<2x?xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0

// -----

// expected-error @+1 {{'sluice.state' op 'w' needs an initial value #sluice.normal<...> or #sluice.fill<...>, found "zeros"}}
sluice.state @w : tensor<2xf32> init "zeros" role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0

// -----

// expected-error @+1 {{'sluice.state' op 'w' must have the role parameter, gradient, exp_avg, exp_avg_sq, mask, age or dense_gradient, found 'momentum'}}
sluice.state @w : tensor<2xf32> init #sluice.fill<0.0 : f64> role "momentum" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0

// -----

// expected-error @+1 {{'sluice.state' op 'w' is stacked over 3 experts, so its first size must be that number, found [2, 4]}}
sluice.state @w : tensor<2x4xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "expert" checkpoint "w" decay true experts 3 active 2

// -----

// expected-error @+1 {{'sluice.state' op 'w' must have between 0 and its 3 experts active, found 4}}
sluice.state @w : tensor<3x4xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "expert" checkpoint "w" decay true experts 3 active 4

// -----

sluice.graph @g() {
  // expected-error @+1 {{'sluice.read' op in @g: names the state @w, which the module lacks}}
  %w = sluice.read @w : tensor<2xf32>
  sluice.return %w ["w"] : tensor<2xf32>
}

// -----

sluice.state @w : tensor<2xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0
sluice.graph @g(%x: tensor<3xf32>) {
  // expected-error @+1 {{'sluice.write' op in layers.0: state @w is 'tensor<2xf32>', found 'tensor<3xf32>'}}
  sluice.write @w, %x {sluice.origin = #sluice.origin<"layers.0", 0, "mlp", "forward">} : tensor<3xf32>
  sluice.return []
}

// -----

sluice.state @w : tensor<2xf32> init #sluice.fill<0.0 : f64> role "gradient" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0
sluice.graph @g(%x: tensor<3xf32>) {
  // expected-error @+1 {{'sluice.accumulate' op in @g: state @w is 'tensor<2xf32>', found 'tensor<3xf32>'}}
  sluice.accumulate @w, %x : tensor<3xf32>
  sluice.return []
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.repeat' op 'layers' must repeat at least once, found times 0}}
  %y = sluice.repeat "layers" times 0 (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<2xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.repeat' op 'layers' first must not be negative, found -1}}
  %y = sluice.repeat "layers" times 2 (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> attributes {first = -1 : i64} {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<2xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.repeat' op 'layers' must repeat at least once, found times -2}}
  %y = sluice.repeat "layers" times -2 (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<2xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.repeat' op 'layers' must return the types it is given, found 'tensor<2xf32>' and 'tensor<3xf32>'}}
  %y = sluice.repeat "layers" times 2 (%a = %x) : (tensor<2xf32>) -> tensor<3xf32> {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<3xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.repeat' op body yields 0 values, expected 1}}
  %y = sluice.repeat "layers" times 2 (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    sluice.yield
  }
  sluice.return %y ["y"] : tensor<2xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{expected 1 operand types, found 2}}
  %y = sluice.repeat "layers" times 2 (%a = %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<2xf32>
}

// -----

// The custom syntax cannot write this: the body's argument has another type than its operand.
sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.repeat' op 'layers' body arguments must have the operands' types}}
  %y = "sluice.repeat"(%x) <{name = "layers", times = 2 : i64}> ({
  ^bb0(%a: tensor<3xf32>):
    sluice.yield %x : tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  sluice.return %y ["y"] : tensor<2xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.scope' op yielded value 0 has type 'tensor<2xf32>', expected 'tensor<3xf32>'}}
  %y = sluice.scope "attn" -> tensor<3xf32> {
    sluice.yield %x : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<3xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.scope' op body must end with sluice.yield}}
  sluice.scope "attn" {
    %y = sluice.scale %x {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  }
  sluice.return []
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<5x4xf32>) {
  // expected-error @+1 {{'sluice.experts' op each input must be [12, ...], the assignment's rows (tokens * top_k), found [5, 4]}}
  %y = sluice.experts by %r : !routing (%row = %x) : (tensor<5x4xf32>) -> tensor<5x4xf32> {
    sluice.yield %row : tensor<5x4xf32>
  }
  sluice.return %y ["y"] : tensor<5x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %q: !routing, %x: tensor<6x4xf32>) {
  %y = sluice.scope "moe" -> tensor<12x4xf32> {
    %rows = sluice.dispatch %x by %r : (tensor<6x4xf32>, !routing) -> tensor<12x4xf32>
    // expected-error @+1 {{'sluice.experts' op in moe: rows were dispatched by another assignment than the one named here}}
    %e = sluice.experts by %q : !routing (%row = %rows) : (tensor<12x4xf32>) -> tensor<12x4xf32> {
      sluice.yield %row : tensor<12x4xf32>
    }
    sluice.yield %e : tensor<12x4xf32>
  }
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>) {
  // expected-error @+1 {{'sluice.experts' op body arguments must have the inputs' types}}
  %y = "sluice.experts"(%r, %x) ({
  ^bb0(%a: tensor<3xf32>):
    sluice.yield %x : tensor<12x4xf32>
  }) : (!routing, tensor<12x4xf32>) -> tensor<12x4xf32>
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

!routing = !sluice.routing<experts = 3, top_k = 2, tokens = "6">
sluice.graph @g(%r: !routing, %x: tensor<12x4xf32>) {
  // expected-error @+1 {{'sluice.experts' op body yields 2 values, expected 1}}
  %y = sluice.experts by %r : !routing (%row = %x) : (tensor<12x4xf32>) -> tensor<12x4xf32> {
    sluice.yield %row, %row : tensor<12x4xf32>, tensor<12x4xf32>
  }
  sluice.return %y ["y"] : tensor<12x4xf32>
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.auxiliary_loss' op 'balance' must be a scalar, found [2]}}
  sluice.auxiliary_loss "balance" %x weight 0.1 : tensor<2xf32>
  sluice.return []
}

// -----

sluice.graph @g(%x: tensor<2xi32>) {
  // expected-error @+1 {{'sluice.auxiliary_loss' op operand #0 must be ranked tensor of floats, but got 'tensor<2xi32>'}}
  sluice.auxiliary_loss "balance" %x weight 0.1 : tensor<2xi32>
  sluice.return []
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.kernel' op body arguments must have the inputs' types}}
  %y = "sluice.kernel"(%x) <{kind = "rows", settings = {}}> ({
  ^bb0(%a: tensor<3xf32>):
    sluice.yield %a : tensor<3xf32>
  }) : (tensor<2xf32>) -> tensor<3xf32>
  sluice.return []
}

// -----

sluice.graph @g(%x: tensor<2xf32>) {
  // expected-error @+1 {{'sluice.kernel' op yielded value 0 has type 'tensor<2xf32>', expected 'tensor<3xf32>'}}
  %y = sluice.kernel "rows" {} (%a = %x) : (tensor<2xf32>) -> tensor<3xf32> {
    sluice.yield %a : tensor<2xf32>
  }
  sluice.return []
}

// -----

sluice.graph @g() {
  // expected-error @+1 {{'sluice.param' op 'w' is stacked by experts: needs sluice.experts, its leading size, and sluice.active, 1 to that number, found [3, 2]}}
  %w = sluice.param "w" init #sluice.normal<0.02> role "expert" {sluice.experts = 4 : i64, sluice.active = 2 : i64} : tensor<3x2xf32>
  sluice.return %w ["w"] : tensor<3x2xf32>
}
