// RUN: sluice-opt %s --sluice-choose-precision | FileCheck %s
// RUN: not sluice-opt %s --sluice-choose-precision="precision=bfloat16" 2>&1 | FileCheck %s --check-prefix=OTHER
// CHECK: sluice.precision = "float32"
// OTHER: precision: expected float32 (the only one so far), found 'bfloat16'
module {}
