// RUN: sluice-opt %s --sluice-form-kernels | FileCheck %s
// RUN: sluice-opt %S/Inputs/moe.mlir --sluice-to-phase="phase=form-kernels bindings=batch=2,seq=3" 2>/dev/null | FileCheck %s --check-prefix=MOE

#o = #sluice.origin<"a", 0, "attention", "forward">
#b = #sluice.origin<"a", 0, "attention", "backward">
!t = tensor<6x4xf32>
!r = tensor<6x1xf32>

// An elementwise op, the sum of its row and what depends on that sum: one kernel, with the two values that are returned.
// CHECK-LABEL: sluice.graph @rows
// CHECK: %[[K:.*]]:2 = sluice.kernel "rows" {columns = 4 : i64, rows = 6 : i64}
// CHECK: sluice.map
// CHECK: sluice.reduce
// CHECK: sluice.map
// CHECK: sluice.yield
// CHECK-NOT: sluice.kernel
// CHECK: sluice.return %[[K]]#0, %[[K]]#1
sluice.graph @rows(%x: !t) {
  %h = sluice.map (%a = %x) : (!t) -> !t attributes {sluice.origin = #o} {
    %p = arith.mulf %a, %a : f32
    sluice.yield %p : f32
  }
  %s = sluice.reduce %h {axes = array<i64: 1>, sluice.origin = #o} : (!t) -> !r
  %y = sluice.map (%a = %h, %c = %s) : (!t, !r) -> !t attributes {sluice.origin = #o} {
    %p = arith.mulf %a, %c : f32
    sluice.yield %p : f32
  }
  sluice.return %h, %y ["h", "y"] {sluice.origin = #o} : !t, !t
}

// A product between them: one kernel would have to run before and after it.
// CHECK-LABEL: sluice.graph @path
// CHECK: sluice.kernel "rows"
// CHECK: sluice.linear
// CHECK: sluice.kernel "rows"
sluice.graph @path(%x: !t, %w: tensor<4x4xf32>) {
  %h = sluice.map (%a = %x) : (!t) -> !t attributes {sluice.origin = #o} {
    %p = arith.mulf %a, %a : f32
    sluice.yield %p : f32
  }
  %l = sluice.linear %h, %w {sluice.origin = #o} : (!t, tensor<4x4xf32>) -> !t
  %y = sluice.map (%a = %h, %c = %l) : (!t, !t) -> !t attributes {sluice.origin = #o} {
    %p = arith.mulf %a, %c : f32
    sluice.yield %p : f32
  }
  sluice.return %y ["y"] {sluice.origin = #o} : !t
}

// What only the sum over rows reads is computed inside it; forward and backward stay apart, and the cheap product is
// computed again in the backward instead of being stored.
// CHECK-LABEL: sluice.graph @columns
// CHECK: %[[F:.*]]:2 = sluice.kernel "rows" {{.*}} -> (tensor<6x1xf32>, tensor<6x1xf32>)
// CHECK: sluice.kernel "columns" {columns = 4 : i64, rows = 6 : i64}
// CHECK: sluice.map
// CHECK: sluice.map
// CHECK: sluice.reduce
// CHECK: sluice.return
sluice.graph @columns(%x: !t, %d: !t) {
  %s = sluice.reduce %x {axes = array<i64: 1>, sluice.origin = #o} : (!t) -> !r
  %h = sluice.map (%a = %x, %c = %s) : (!t, !r) -> !t attributes {sluice.origin = #o} {
    %p = arith.mulf %a, %c : f32
    sluice.yield %p : f32
  }
  %u = sluice.reduce %h {axes = array<i64: 1>, sluice.origin = #o} : (!t) -> !r
  %g = sluice.map (%a = %h, %c = %d) : (!t, !t) -> !t attributes {sluice.origin = #b} {
    %p = arith.mulf %a, %c : f32
    sluice.yield %p : f32
  }
  %v = sluice.reduce %g {axes = array<i64: 0>, sluice.origin = #b} : (!t) -> tensor<1x4xf32>
  sluice.return %u, %v ["u", "v"] {sluice.origin = #b} : !r, tensor<1x4xf32>
}

// The loss never has all logits in memory, residual and norm are one kernel, the gain's gradient is a column sum that
// adds to its state.
// MOE-LABEL: sluice.graph @accumulate
// MOE: sluice.kernel "rows" {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>, tensor<2x3x4xf32>)
// MOE: sluice.kernel "linear_cross_entropy_gradient"
// MOE: sluice.accumulate @embed.gradient
// MOE: %[[OLD:.*]] = sluice.read @layers.1.moe.norm.gradient
// MOE: %[[NEW:.*]] = sluice.kernel "columns" {{.*}} = %[[OLD]])
// MOE: sluice.write @layers.1.moe.norm.gradient, %[[NEW]]
// MOE: sluice.accumulate @embed.gradient
