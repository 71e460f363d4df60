// How dense a masked matrix may be for skipping its zeros to be faster than multiplying them.
#pragma once

#include <cstdint>

namespace sluice {

/// A masked matrix [outputs, inputs] as far as the speed of its products goes: its mask keeps single weights,
/// or blocks of blockRows x blockColumns.
struct MaskedShape {
  int64_t outputs = 1, inputs = 1;
  int64_t blockRows = 1, blockColumns = 1;

  bool operator==(const MaskedShape &) const = default;
};

/// The largest percentage of kept weights at which the kernel that skips zeros is no slower than the dense
/// one, for each of a masked linear layer's products. 0: never skip.
struct BreakEven {
  double product = 0;        // y = x w^T
  double inputGradient = 0;  // dx = dy w
  double weightGradient = 0; // dw = dy^T x

  static BreakEven all(double percent) { return {percent, percent, percent}; }
};

/// Where nothing was measured (docs/benchmarks.md): skipping takes half of the dense time there with AVX2,
/// and about the same with AVX-512.
inline constexpr int64_t defaultBreakEvenPercent = 25;

} // namespace sluice
