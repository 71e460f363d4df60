// One dense product as oneDNN does it with its own threads: what products are measured against.
#pragma once

#include <cstdint>

namespace sluice::benchmarks {

/// Best time in seconds of C[m, n] = op(A) op(B), reduced over k, in a few runs on float32 operands that are
/// not zero. A transposed operand is stored the other way round, row-major.
double denseProductSeconds(int64_t m, int64_t n, int64_t k, bool transposeA, bool transposeB);

} // namespace sluice::benchmarks
