// RUN: sluice-opt %s --sluice-lower-masks=cuda=true --verify-diagnostics > /dev/null
// Blocks fit the tiles of CUDA's library or not; single weights never.
!blocks = !sluice.mask<[32, 32], kept = 256, "block:16x16">
!narrow = !sluice.mask<[32, 32], kept = 256, "block:16x8">
!single = !sluice.mask<[32, 32], kept = 256, "unstructured">
sluice.graph @model(%x: tensor<3x32xf32>, %w: tensor<32x32xf32>, %b: !blocks, %n: !narrow, %s: !single) {
  // expected-remark @below {{of its weights (break-even 25.0 %, assumed); on CUDA over kept blocks alone}}
  %0 = sluice.linear %x, %w mask %b {sluice.origin = #sluice.origin<"a", 0, "mlp", "forward">} : (tensor<3x32xf32>, tensor<32x32xf32>, !blocks) -> tensor<3x32xf32>
  // expected-remark @below {{; on CUDA masked dense, since blocks of 16x8 are not multiples of 16x16}}
  %1 = sluice.linear %x, %w mask %n {sluice.origin = #sluice.origin<"b", 0, "mlp", "forward">} : (tensor<3x32xf32>, tensor<32x32xf32>, !narrow) -> tensor<3x32xf32>
  // expected-remark @below {{of its weights (break-even 25.0 %, assumed); on CUDA masked dense}}
  %2 = sluice.linear %x, %w mask %s {sluice.origin = #sluice.origin<"c", 0, "mlp", "forward">} : (tensor<3x32xf32>, tensor<32x32xf32>, !single) -> tensor<3x32xf32>
  sluice.return %0, %1, %2 ["0", "1", "2"] : tensor<3x32xf32>, tensor<3x32xf32>, tensor<3x32xf32>
}
