// RUN: sluice-opt %s --sluice-open-experts --split-input-file --verify-diagnostics
!r = !sluice.routing<experts = 3, top_k = 2, tokens = "5">

sluice.graph @gain(%rows: tensor<10x4xf32>, %r: !r) {
  %y = sluice.experts by %r : !r (%row = %rows) : (tensor<10x4xf32>) -> tensor<10x4xf32> {
    %g = sluice.param "gain" init #sluice.fill<1.0 : f64> role "norm" : tensor<4xf32>
    // expected-error @below {{parameter 'gain' exists once an expert, so only sluice.linear may use it, as weight or bias; found sluice.rms_norm (move the parameter out of experts to share it)}}
    %n:2 = sluice.rms_norm %row, %g {epsilon = 1.0e-5 : f64} : (tensor<10x4xf32>, tensor<4xf32>) -> (tensor<10x4xf32>, tensor<10x1xf32>)
    sluice.yield %n#0 : tensor<10x4xf32>
  }
  sluice.return %y ["y"] : tensor<10x4xf32>
}

// -----
!r = !sluice.routing<experts = 3, top_k = 2, tokens = "5">

sluice.graph @bias(%rows: tensor<10x4xf32>, %r: !r, %b: tensor<4xf32>) {
  %y = sluice.experts by %r : !r (%row = %rows) : (tensor<10x4xf32>) -> tensor<10x4xf32> {
    %w = sluice.param "w" init #sluice.normal<0.02 : f64> role "expert" : tensor<4x4xf32>
    // expected-error @below {{weight and bias must both be parameters of the experts, or both be shared}}
    %o = sluice.linear %row, %w bias %b : (tensor<10x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<10x4xf32>
    sluice.yield %o : tensor<10x4xf32>
  }
  sluice.return %y ["y"] : tensor<10x4xf32>
}
