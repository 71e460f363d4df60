#include "runtime/device/cpu/SimdGemm.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/device/cpu/SimdGemm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The classic scheme (Goto, van de Geijn 2008): both operands are packed into panels as wide as the register
// tile, a panel of B stays in the first-level cache while the panels of A stream from the second.

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
using Vector = hn::Vec<Full>;
using Quad = hn::FixedTag<float, 4>;

// Two vectors of columns and as many rows as leave room for B's two vectors and one broadcast of A:
// 12 x 2 + 3 of 32 registers with AVX-512, 6 x 2 + 3 of 16 otherwise.
constexpr int64_t lanes = HWY_MAX_BYTES / sizeof(float);
constexpr int64_t tileRows = HWY_MAX_BYTES == 64 ? 12 : 6;
constexpr int64_t tileColumns = 2 * lanes;
constexpr int64_t depthBlock = 256;

/// Transposes the 4 x 4 block whose rows start at source + r * stride into target + c * width.
HWY_INLINE void transposeQuad(const float *HWY_RESTRICT s0, const float *HWY_RESTRICT s1,
                              const float *HWY_RESTRICT s2, const float *HWY_RESTRICT s3,
                              float *HWY_RESTRICT target, int64_t width) {
  const Quad d;
  const hn::Repartition<double, Quad> wide;
  auto r0 = hn::LoadU(d, s0), r1 = hn::LoadU(d, s1), r2 = hn::LoadU(d, s2), r3 = hn::LoadU(d, s3);
  auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveLower(d, r2, r3);
  auto e = hn::InterleaveUpper(d, r0, r1), f = hn::InterleaveUpper(d, r2, r3);
  auto lower = [&](auto x, auto y) {
    return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, x), hn::BitCast(wide, y)));
  };
  auto upper = [&](auto x, auto y) {
    return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, x), hn::BitCast(wide, y)));
  };
  hn::StoreU(lower(a, b), d, target);
  hn::StoreU(upper(a, b), d, target + width);
  hn::StoreU(lower(e, f), d, target + 2 * width);
  hn::StoreU(upper(e, f), d, target + 3 * width);
}

/// Packs `count` <= width vectors of length `depth` into panel[depth][width]; missing ones become zeros.
/// Vector v's element p lies at source[v * vectorStride + p * depthStride].
template <int64_t width>
HWY_INLINE void packPanel(const float *HWY_RESTRICT source, int64_t vectorStride, int64_t depthStride,
                          int64_t count, int64_t depth, float *HWY_RESTRICT panel) {
  int64_t p = 0;
  if (count == width && vectorStride == 1) {
    for (; p < depth; ++p)
      std::memcpy(panel + p * width, source + p * depthStride, width * sizeof(float));
    return;
  }
  if (count == width && depthStride == 1) {
    const float *row[width];
    for (int64_t v = 0; v < width; ++v)
      row[v] = source + v * vectorStride;
    for (; p + 4 <= depth; p += 4) {
      float *target = panel + p * width;
      // A remainder of two (width 6) is written first, four wide: the next store repairs what it spoils.
      if constexpr (width % 4 == 2)
        transposeQuad(row[width - 2] + p, row[width - 1] + p, row[width - 2] + p, row[width - 1] + p,
                      target + width - 2, width);
      for (int64_t v = 0; v + 4 <= width; v += 4)
        transposeQuad(row[v] + p, row[v + 1] + p, row[v + 2] + p, row[v + 3] + p, target + v, width);
    }
  }
  for (; p < depth; ++p)
    for (int64_t v = 0; v < width; ++v)
      panel[p * width + v] = v < count ? source[v * vectorStride + p * depthStride] : 0.0f;
}

/// One register tile: C (+)= panelA[depth][tileRows]^T panelB[depth][tileColumns].
HWY_INLINE void tileProduct(int64_t depth, const float *HWY_RESTRICT panelA, const float *HWY_RESTRICT panelB,
                            float *HWY_RESTRICT c, int64_t leadingC, bool accumulate) {
  const Full d;
  Vector sum[tileRows][2];
  // C's lines are far away by now; ask for them before the long loop.
  for (int64_t i = 0; i < tileRows; ++i)
    for (int64_t j = 0; j < tileColumns; j += 16)
      __builtin_prefetch(c + i * leadingC + j, 1);
  HWY_UNROLL(12)
  for (int64_t i = 0; i < tileRows; ++i)
    sum[i][0] = sum[i][1] = hn::Zero(d);
  for (int64_t p = 0; p < depth; ++p) {
    const Vector b0 = hn::Load(d, panelB), b1 = hn::Load(d, panelB + lanes);
    panelB += tileColumns;
    HWY_UNROLL(12)
    for (int64_t i = 0; i < tileRows; ++i) {
      const Vector x = hn::Set(d, panelA[i]);
      sum[i][0] = hn::MulAdd(x, b0, sum[i][0]);
      sum[i][1] = hn::MulAdd(x, b1, sum[i][1]);
    }
    panelA += tileRows;
  }
  HWY_UNROLL(12)
  for (int64_t i = 0; i < tileRows; ++i) {
    float *row = c + i * leadingC;
    if (accumulate) {
      sum[i][0] = hn::Add(hn::LoadU(d, row), sum[i][0]);
      sum[i][1] = hn::Add(hn::LoadU(d, row + lanes), sum[i][1]);
    }
    hn::StoreU(sum[i][0], d, row);
    hn::StoreU(sum[i][1], d, row + lanes);
  }
}

int64_t panels(int64_t count, int64_t width) {
  return (count + width - 1) / width;
}

uint64_t scratchBytes(int64_t rows, int64_t columns, int64_t depth) {
  int64_t block = std::min(depth, depthBlock);
  return static_cast<uint64_t>(panels(rows, tileRows) * tileRows * block +
                               panels(columns, tileColumns) * tileColumns * block + 64) *
         sizeof(float);
}

void gemm(int64_t rows, int64_t columns, int64_t depth, MatrixView a, MatrixView b, float *c,
          int64_t leadingC, bool accumulate, void *scratch) {
  if (depth == 0 && !accumulate)
    for (int64_t i = 0; i < rows; ++i)
      std::fill_n(c + i * leadingC, columns, 0.0f);
  // B first: its panels are read with aligned loads. A's packing may write two floats past its end.
  float *packedB = static_cast<float *>(scratch);
  float *packedA = packedB + panels(columns, tileColumns) * tileColumns * std::min(depth, depthBlock);
  HWY_ALIGN float edge[tileRows * tileColumns];
  for (int64_t begin = 0; begin < depth; begin += depthBlock) {
    const int64_t block = std::min(depthBlock, depth - begin);
    const bool add = accumulate || begin > 0;
    for (int64_t j = 0; j < columns; j += tileColumns)
      packPanel<tileColumns>(b.data + begin * b.rowStride + j * b.columnStride, b.columnStride, b.rowStride,
                             std::min(tileColumns, columns - j), block, packedB + j * block);
    for (int64_t i = 0; i < rows; i += tileRows)
      packPanel<tileRows>(a.data + i * a.rowStride + begin * a.columnStride, a.rowStride, a.columnStride,
                          std::min(tileRows, rows - i), block, packedA + i * block);
    for (int64_t j = 0; j < columns; j += tileColumns) {
      const int64_t width = std::min(tileColumns, columns - j);
      for (int64_t i = 0; i < rows; i += tileRows) {
        const int64_t height = std::min(tileRows, rows - i);
        float *corner = c + i * leadingC + j;
        if (height == tileRows && width == tileColumns) {
          tileProduct(block, packedA + i * block, packedB + j * block, corner, leadingC, add);
          continue;
        }
        tileProduct(block, packedA + i * block, packedB + j * block, edge, tileColumns, false);
        for (int64_t r = 0; r < height; ++r)
          for (int64_t q = 0; q < width; ++q)
            corner[r * leadingC + q] = (add ? corner[r * leadingC + q] : 0.0f) + edge[r * tileColumns + q];
      }
    }
  }
}

} // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
HWY_EXPORT(scratchBytes);
HWY_EXPORT(gemm);

uint64_t simdGemmScratchBytes(int64_t rows, int64_t columns, int64_t depth) {
  return HWY_DYNAMIC_DISPATCH(scratchBytes)(rows, columns, depth);
}

void simdGemm(int64_t rows, int64_t columns, int64_t depth, MatrixView a, MatrixView b, float *c,
              int64_t leadingC, bool accumulate, void *scratch) {
  HWY_DYNAMIC_DISPATCH(gemm)(rows, columns, depth, a, b, c, leadingC, accumulate, scratch);
}
} // namespace sluice::cpu
#endif
