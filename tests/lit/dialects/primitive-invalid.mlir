// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Each rule of the primitives, broken once.

sluice.graph @g(%x: tensor<2x3xf32>, %y: tensor<4xf32>) {
  // expected-error @+2 {{operands must broadcast (aligned at the last dimension, sizes equal or 1), found [2, 3], [4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.map (%a = %x, %b = %y) : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32> {
    sluice.yield %a : f32
  }
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{body must be made of scalar arith and math ops that have a rule, found 'math.cbrt'}}
  %z = sluice.map (%a = %x) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
    %b = math.cbrt %a : f32
    sluice.yield %b : f32
  }
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  %c = arith.constant 1.0 : f32
  // expected-error @+1 {{body must read its own scalars only, but 'arith.addf' reads a value from outside; make it an operand}}
  %z = sluice.map (%a = %x) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
    %b = arith.addf %a, %c : f32
    sluice.yield %b : f32
  }
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{body must end with sluice.yield of one 'f32'}}
  %z = sluice.map (%a = %x) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
    sluice.yield %a, %a : f32, f32
  }
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{axes must be below the operand's rank 2, found 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.reduce %x {axes = array<i64: 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{at 'layers.1.norm': axes must increase, found [1, 0]}}
  %z = sluice.reduce %x {axes = array<i64: 1, 0>, sluice.origin = #sluice.origin<"layers.1.norm", 1, "norm", "forward">} : (tensor<2x3xf32>) -> tensor<1x1xf32>
  sluice.return %z ["z"] : tensor<1x1xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{kind must be sum or max, found 'mean'}}
  %z = sluice.reduce %x {axes = array<i64: 1>, kind = "mean"} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  sluice.return %z ["z"] : tensor<2x1xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand must have the result's sizes or 1, aligned at the last dimension: found [2, 3] for [4, 3]}}
  %z = sluice.broadcast %x {shape = array<i64: 4, 3>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  sluice.return %z ["z"] : tensor<4x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{size -1 of axis 0 names no size of the operand [2, 3]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.broadcast %x {shape = array<i64: -1, 2, 3>} : (tensor<2x3xf32>) -> tensor<2x2x3xf32>
  sluice.return %z ["z"] : tensor<2x2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>, %y: tensor<4x2xf32>) {
  // expected-error @+2 {{equation "mk,kn->mn": letter 'k' has two sizes in [2, 3] and [4, 2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.contract %x, %y {equation = "mk,kn->mn"} : (tensor<2x3xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error @+2 {{equation "mk,kn->m": letter 'n' stands in one operand only; use reduce to sum over it first}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.contract %x, %y {equation = "mk,kn->m"} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2xf32>
  sluice.return %z ["z"] : tensor<2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) {
  // expected-error @+2 {{equation "mm,mn->mn": letter 'm' stands twice in the first operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.contract %x, %y {equation = "mm,mn->mn"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) {
  // expected-error @+2 {{equation "mk,kn": expected the form "mk,nk->mn"}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.contract %x, %y {equation = "mk,kn"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) {
  // expected-error @+2 {{equation "mkl,kn->mln": the operands [2, 2] and [2, 2] have 2 and 2 dimensions}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.contract %x, %y {equation = "mkl,kn->mln"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) {
  // expected-error @+2 {{equation "mk,kn->mnz": letter 'z' of the result stands in no operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.contract %x, %y {equation = "mk,kn->mnz"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>, %y: tensor<3x2xf64>) {
  // expected-error @+1 {{operands must have one element type, found 'f32' and 'f64'}}
  %z = sluice.contract %x, %y {equation = "mk,kn->mn"} : (tensor<2x3xf32>, tensor<3x2xf64>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{must keep the number of elements: found [2, 3] for [4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.reshape %x {shape = array<i64: 4>} : (tensor<2x3xf32>) -> tensor<4xf32>
  sluice.return %z ["z"] : tensor<4xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{sizes must not be negative, one may be -1 and those of axes that the operand has may be -2, found [-1, -1]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.reshape %x {shape = array<i64: -1, -1>} : (tensor<2x3xf32>) -> tensor<6x1xf32>
  sluice.return %z ["z"] : tensor<6x1xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{permutation must name each of the 2 axes once, found [0, 0]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.transpose %x {permutation = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  sluice.return %z ["z"] : tensor<2x2xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{box must lie inside [2, 3], found offsets [1, 1] and sizes [1, 3]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.slice %x {offsets = array<i64: 1, 1>, sizes = array<i64: 1, 3>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  sluice.return %z ["z"] : tensor<1x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{needs an offset and a size for each of the 2 dimensions, found [1] and [1]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.slice %x {offsets = array<i64: 1>, sizes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  sluice.return %z ["z"] : tensor<1x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{operand [2, 3] must fit into [2, 3] at [0, 1]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.pad %x {offsets = array<i64: 0, 1>, shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @+2 {{operands must agree in all dimensions but axis 0, which must be a number: found [2, 3] and [2, 4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.concat %x, %y {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  sluice.return %z ["z"] : tensor<4x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{axis must be below the operands' rank 2, found 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.concat %x, %x {axis = 2 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  sluice.return %z ["z"] : tensor<4x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>, %i: tensor<2x2xi32>) {
  // expected-error @+2 {{ids must have 1 dimensions, found [2, 2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %z = sluice.gather %x, %i : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<2x3xf32>
  sluice.return %z ["z"] : tensor<2x3xf32>
}

// -----

sluice.graph @g(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{op inferred type(s) 'tensor<2x1xf32>' are incompatible with return type(s) of operation 'tensor<2x3xf32>'}}
  %z = sluice.reduce %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  sluice.return %z ["z"] : tensor<2x3xf32>
}
