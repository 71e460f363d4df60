// RUN: sluice-opt %s --sluice-verify-plan --split-input-file --verify-diagnostics
// Each way in which a plan may lose a value, once.

!t = tensor<16xf32>
sluice.graph @g(%x: !t) {
  // expected-error @-1 {{'sluice.graph' op has no places for its inputs and outputs}}
  sluice.return %x ["x"] : !t
}

// -----

// expected-error @+1 {{'sluice.state' op has no place}}
sluice.state @w : tensor<2xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0

// -----

// expected-error @+1 {{two states share memory}}
module {
  sluice.state @v : tensor<32xf32> init #sluice.fill<0.0 : f64> role "parameter" of "v" kind "mlp" checkpoint "v" decay true experts 0 active 0 {plan.slot = #plan.slot<"parameters", 0>}
  sluice.state @w : tensor<2xf32> init #sluice.fill<0.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0 {plan.slot = #plan.slot<"parameters", 64>}
}

// -----

!t = tensor<16xf32>
plan.arena @io 128 lifetime "io"
sluice.graph @g(%x: !t) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 64>]} {
  // expected-error @+1 {{'plan.command' op has number 3, expected 0}}
  %a = plan.command 3 "scale" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"io", 64>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return %a ["a"] : !t
}

// -----

!t = tensor<16xf32>
plan.arena @io 128 lifetime "io"
sluice.graph @g(%x: !t) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 64>]} {
  // expected-error @+1 {{'plan.command' op reads an operand at #plan.slot<"io", 64>, which lives elsewhere}}
  %a = plan.command 0 "scale" {} (%x) from [#plan.slot<"io", 64>] to [#plan.slot<"io", 64>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return %a ["a"] : !t
}

// -----

!t = tensor<16xf32>
plan.arena @io 128 lifetime "io"
sluice.graph @g(%x: !t) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 64>]} {
  // expected-error @+1 {{'plan.command' op has an operand without a place}}
  %a = plan.command 0 "scale" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"nowhere", 64>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return %a ["a"] : !t
}

// -----

!t = tensor<16xf32>
plan.arena @io 128 lifetime "io"
sluice.graph @g(%x: !t) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 64>]} {
  // expected-error @+1 {{'plan.command' op has an operand at bytes 128 to 192 of arena 'io' of 128 bytes}}
  %a = plan.command 0 "scale" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"io", 128>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return %a ["a"] : !t
}

// -----

!t = tensor<16xf32>
plan.arena @io 192 lifetime "io"
sluice.graph @g(%x: !t) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 64>, #plan.slot<"io", 64>]} {
  // expected-error @+1 {{'plan.command' op writes two results to one place}}
  %a:2 = plan.command 0 "split" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"io", 64>, #plan.slot<"io", 64>] states [] after [] : (!t) -> (!t, !t) (%v: !t) {
    sluice.yield %v, %v : !t, !t
  }
  sluice.return %a#0, %a#1 ["a", "b"] : !t, !t
}

// -----

!t = tensor<16xf32>
plan.arena @io 128 lifetime "io"
plan.arena @activations 128 lifetime "activations"
sluice.graph @g(%x: !t) attributes {plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 64>]} {
  %a = plan.command 0 "scale" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"activations", 0>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  // expected-error @+1 {{'plan.command' op overwrites a value at #plan.slot<"activations", 0> that command 2 still reads}}
  %b = plan.command 1 "scale" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"activations", 0>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  %c = plan.command 2 "add" {} (%a, %b) from [#plan.slot<"activations", 0>, #plan.slot<"activations", 0>] to [#plan.slot<"io", 64>] states [] after [0, 1] : (!t, !t) -> (!t) (%v: !t, %u: !t) {
    sluice.yield %v : !t
  }
  sluice.return %c ["c"] : !t
}
