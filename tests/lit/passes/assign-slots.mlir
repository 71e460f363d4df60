// RUN: sluice-opt %s --sluice-form-commands --sluice-assign-slots --sluice-verify-plan | FileCheck %s

#o = #sluice.origin<"a", 0, "mlp", "forward">
!x = tensor<6x4xf32>
!w = tensor<4x4xf32>

// Sizes are whole multiples of 64: 6x4 floats are 96 bytes and take 128. A chain of three products needs two places, since
// the first value dies when the second is computed from it.
// CHECK: plan.arena @parameters 192 lifetime "parameters"
// CHECK: plan.arena @activations 256 lifetime "activations"
// CHECK: plan.arena @io 256 lifetime "io"
// In name order: @a before @w, though @w comes first.
// CHECK: sluice.state @w {{.*}}plan.slot = #plan.slot<"parameters", 128>
// CHECK: sluice.state @a {{.*}}plan.slot = #plan.slot<"parameters", 0>
sluice.state @w : !w init #sluice.fill<1.0 : f64> role "parameter" of "w" kind "mlp" checkpoint "w" decay true experts 0 active 0 {sluice.origin = #o}
sluice.state @a : !x init #sluice.fill<1.0 : f64> role "parameter" of "a" kind "mlp" checkpoint "a" decay true experts 0 active 0 {sluice.origin = #o}

// CHECK-LABEL: sluice.graph @eval(
// CHECK-SAME: plan.input_slots = [#plan.slot<"io", 0>], plan.output_slots = [#plan.slot<"io", 128>]
// CHECK: plan.command 0 {{.*}} from [#plan.slot<"io", 0>, #plan.slot<"parameters", 128>] to [#plan.slot<"activations", [[A:.*]]>] states
// CHECK: plan.command 1 {{.*}} from [#plan.slot<"activations", [[A]]>, #plan.slot<"parameters", 128>] to [#plan.slot<"activations", [[B:.*]]>] states
// CHECK: plan.command 2 {{.*}} from [#plan.slot<"activations", [[B]]>, #plan.slot<"parameters", 128>] to [#plan.slot<"activations", [[A]]>] states
// CHECK: plan.command 3 {{.*}} from [#plan.slot<"activations", [[A]]>, #plan.slot<"parameters", 128>] to [#plan.slot<"io", 128>] states
sluice.graph @eval(%x: !x) {
  %w = sluice.read @w {sluice.origin = #o} : !w
  %a = sluice.linear %x, %w {sluice.origin = #o} : (!x, !w) -> !x
  %b = sluice.linear %a, %w {sluice.origin = #o} : (!x, !w) -> !x
  %c = sluice.linear %b, %w {sluice.origin = #o} : (!x, !w) -> !x
  %d = sluice.linear %c, %w {sluice.origin = #o} : (!x, !w) -> !x
  sluice.return %d ["d"] {sluice.origin = #o} : !x
}
