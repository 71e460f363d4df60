// RUN: sluice-opt %s --sluice-bind-dimensions=bindings=seq=3 2>&1 | FileCheck %s --check-prefix=FITS
// RUN: sluice-opt %s --sluice-bind-dimensions=bindings=seq=9 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-bind-dimensions=bindings=seq=9 --sluice-decompose-ops --sluice-check-lowering 2>&1 | FileCheck %s --check-prefix=COMPILE

// A sequence longer than a table of learned positions can be counted, not compiled.
// FITS-NOT: warning
// CHECK: warning: {{.*}}seq = 9 is longer than the table of 5 learned positions: the model can be counted, not compiled or run
// COMPILE: note: sluice.position_embedding in {{.*}}: the sequence is longer than the table of learned positions; bind a shorter seq
sluice.graph @g(%x: tensor<2x?x4xf32, #sluice.dims<_, seq, _>>, %t: tensor<5x4xf32>) {
  %y = sluice.position_embedding %x, %t : (tensor<2x?x4xf32, #sluice.dims<_, seq, _>>, tensor<5x4xf32>) -> tensor<2x?x4xf32, #sluice.dims<_, seq, _>>
  sluice.return %y ["y"] : tensor<2x?x4xf32, #sluice.dims<_, seq, _>>
}
