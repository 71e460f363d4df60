// RUN: not sluice-opt %s --sluice-verify-phase="phase=bind" 2>&1 | FileCheck %s --check-prefix=BIND
// RUN: not sluice-opt %s --sluice-verify-phase="phase=flatten" 2>&1 | FileCheck %s --check-prefix=FLATTEN
// RUN: not sluice-opt %s --sluice-verify-phase="phase=differentiate" 2>&1 | FileCheck %s --check-prefix=DIFFERENTIATE
// RUN: not sluice-opt %s --sluice-verify-phase="phase=fuse" 2>&1 | FileCheck %s --check-prefix=NAME

// BIND: after bind: sluice.add has a dimension without a size
// BIND: after bind: sluice.kernel belongs to fuse-experts or later
// BIND-NOT: must be gone
// FLATTEN-DAG: after flatten: sluice.param must be gone
// FLATTEN-DAG: after flatten: sluice.scope must be gone
// FLATTEN-DAG: after flatten: sluice.scale has no origin
// DIFFERENTIATE: after differentiate: sluice.graph 'model' is not an entry point
// NAME: no phase is called 'fuse'
!x = tensor<?xf32, #sluice.dims<batch>>
sluice.graph @model(%x: !x, %k: tensor<2xf32>) {
  %a = sluice.add %x, %x : (!x, !x) -> !x
  %s = sluice.scope "part" -> tensor<2xf32> {
    %p = sluice.param "p" init #sluice.fill<0.0 : f64> role "norm" : tensor<2xf32>
    sluice.yield %p : tensor<2xf32>
  }
  %c = sluice.scale %k {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %f = sluice.kernel "rows" {} (%b = %c) : (tensor<2xf32>) -> tensor<2xf32> {
    %d = sluice.scale %b {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
    sluice.yield %d : tensor<2xf32>
  }
  sluice.return %a, %s, %f ["a", "s", "f"] : !x, tensor<2xf32>, tensor<2xf32>
}
