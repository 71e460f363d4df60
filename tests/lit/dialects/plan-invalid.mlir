// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of arenas, slots and commands, broken once.

// expected-error @+1 {{'plan.arena' op 'a' must have 0 bytes or more, found -64}}
plan.arena @a -64 lifetime "io"

// -----

// expected-error @+1 {{'plan.arena' op 'a' must have the lifetime parameters, gradients, optimizer, activations or io, found 'forever'}}
plan.arena @a 64 lifetime "forever"

// -----

// expected-error @+1 {{a slot's offset must be a multiple of 64, found 4 in 'io'}}
plan.arena @a 64 lifetime "io" {plan.slot = #plan.slot<"io", 4>}

// -----

// expected-error @+1 {{a slot's offset must be a multiple of 64, found -64 in 'io'}}
plan.arena @a 64 lifetime "io" {plan.slot = #plan.slot<"io", -64>}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op has 1 inputs but 2 input slots}}
  %a = plan.command 0 "launch" {} (%x) from [#plan.slot<"io", 0>, #plan.slot<"io", 64>] to [#plan.slot<"io", 0>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return []
}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op has 1 results but 0 result slots}}
  %a = plan.command 0 "launch" {} (%x) from [#plan.slot<"io", 0>] to [] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return []
}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op needs slots such as #plan.slot<"activations", 64>, found 64 : i64}}
  %a = plan.command 0 "launch" {} (%x) from [64] to [#plan.slot<"io", 0>] states [] after [] : (!t) -> (!t) (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return []
}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op body takes 1 values, expected the 1 inputs and 1 states}}
  plan.command 0 "launch" {} (%x) from [#plan.slot<"io", 0>] to [] states [@w] after [] : (!t) -> () (%v: !t) {
    sluice.yield %v : !t
  }
  sluice.return []
}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op body arguments must have the inputs' types}}
  plan.command 0 "launch" {} (%x) from [#plan.slot<"io", 0>] to [] states [] after [] : (!t) -> () (%v: tensor<3xf32>) {
    sluice.yield
  }
  sluice.return []
}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op body yields 1 values, expected the 1 results and 1 states}}
  %a = plan.command 0 "launch" {} (%x) from [#plan.slot<"io", 0>] to [#plan.slot<"io", 0>] states [@w] after [] : (!t) -> (!t) (%v: !t, %w: !t) {
    sluice.yield %v : !t
  }
  sluice.return []
}

// -----

!t = tensor<2xf32>
sluice.graph @g(%x: !t) {
  // expected-error @+1 {{'plan.command' op depends on command 1, which is not an earlier one}}
  plan.command 1 "launch" {} (%x) from [#plan.slot<"io", 0>] to [] states [] after [0, 1] : (!t) -> () (%v: !t) {
    sluice.yield
  }
  sluice.return []
}
