#include "runtime/device/cpu/SparseProduct.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/device/cpu/SparseProduct.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// A panel is [features][panelTokens]: the tokens of one feature lie side by side. One output's sums stay in
// eight registers while its run of entries reads one row of the panel each; eight independent sums hide the
// latency of a multiply-add.

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
using Vector = hn::Vec<Full>;

constexpr int64_t lanes = HWY_MAX_BYTES / sizeof(float);
constexpr int64_t vectors = 8;
constexpr int64_t panel = vectors * lanes;

int64_t panelTokens() {
  return panel;
}

using Quad = hn::FixedTag<float, 4>;

/// Transposes the 4 x 4 block whose rows are source + r * stride into target + c * targetStride.
HWY_INLINE void transposeQuad(const float *HWY_RESTRICT source, int64_t stride, float *HWY_RESTRICT target,
                              int64_t targetStride) {
  const Quad d;
  const hn::Repartition<double, Quad> wide;
  auto r0 = hn::LoadU(d, source), r1 = hn::LoadU(d, source + stride), r2 = hn::LoadU(d, source + 2 * stride),
       r3 = hn::LoadU(d, source + 3 * stride);
  auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveLower(d, r2, r3);
  auto e = hn::InterleaveUpper(d, r0, r1), f = hn::InterleaveUpper(d, r2, r3);
  auto lower = [&](auto x, auto y) {
    return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, x), hn::BitCast(wide, y)));
  };
  auto upper = [&](auto x, auto y) {
    return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, x), hn::BitCast(wide, y)));
  };
  hn::StoreU(lower(a, b), d, target);
  hn::StoreU(upper(a, b), d, target + targetStride);
  hn::StoreU(lower(e, f), d, target + 2 * targetStride);
  hn::StoreU(upper(e, f), d, target + 3 * targetStride);
}

/// target[column][row] = source[row][column] for up to four rows and columns.
HWY_INLINE void transposeCorner(const float *HWY_RESTRICT source, int64_t rows, int64_t columns,
                                int64_t stride, float *HWY_RESTRICT target, int64_t targetStride) {
  if (rows == 4 && columns == 4)
    return transposeQuad(source, stride, target, targetStride);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row)
      target[column * targetStride + row] = source[row * stride + column];
}

/// The same for any number. The side outside of the panel is read, or written, in long stretches of four
/// lines; a panel is written in pieces that the first-level cache holds.
template <bool sourceIsOutside>
HWY_INLINE void transpose(const float *HWY_RESTRICT source, int64_t rows, int64_t columns, int64_t stride,
                          float *HWY_RESTRICT target, int64_t targetStride) {
  constexpr int64_t piece = sourceIsOutside ? 128 : SparseMatrix::outputBlock;
  const int64_t outside = sourceIsOutside ? rows : columns, inside = sourceIsOutside ? columns : rows;
  for (int64_t block = 0; block < inside; block += piece) {
    const int64_t end = std::min(block + piece, inside);
    for (int64_t far = 0; far < outside; far += 4) {
      const int64_t farCount = std::min<int64_t>(4, outside - far);
      int64_t near = block;
      auto corner = [&](int64_t nearCount) {
        const int64_t row = sourceIsOutside ? far : near, column = sourceIsOutside ? near : far;
        transposeCorner(source + row * stride + column, sourceIsOutside ? farCount : nearCount,
                        sourceIsOutside ? nearCount : farCount, stride, target + column * targetStride + row,
                        targetStride);
      };
      for (; near + 4 <= end; near += 4)
        corner(4);
      if (near < end)
        corner(end - near);
    }
  }
}

/// [features][panel] from [tokens][features]; tokens that are missing are zeros.
HWY_INLINE void packPanel(const float *HWY_RESTRICT source, int64_t tokens, int64_t features, int64_t leading,
                          float *HWY_RESTRICT target) {
  transpose<true>(source, tokens, features, leading, target, panel);
  if (tokens < panel)
    for (int64_t feature = 0; feature < features; ++feature)
      std::fill(target + feature * panel + tokens, target + (feature + 1) * panel, 0.0f);
}

/// Adds a run's products to its output's sums.
HWY_INLINE void addRun(const SparseEntry *HWY_RESTRICT entry, const SparseEntry *end,
                       const float *HWY_RESTRICT x, float *HWY_RESTRICT y) {
  const Full d;
  Vector sum[vectors];
  HWY_UNROLL(8)
  for (int64_t v = 0; v < vectors; ++v)
    sum[v] = hn::Load(d, y + v * lanes);
  for (; entry < end; ++entry) {
    const float *row = x + static_cast<int64_t>(entry->input) * panel;
    const Vector weight = hn::Set(d, entry->value);
    HWY_UNROLL(8)
    for (int64_t v = 0; v < vectors; ++v)
      sum[v] = hn::MulAdd(weight, hn::Load(d, row + v * lanes), sum[v]);
  }
  HWY_UNROLL(8)
  for (int64_t v = 0; v < vectors; ++v)
    hn::Store(sum[v], d, y + v * lanes);
}

uint64_t productScratch(const SparseMatrix &weight) {
  return static_cast<uint64_t>(weight.inputs() + std::min(weight.outputs(), SparseMatrix::outputBlock)) *
         panel * sizeof(float);
}

void panelProduct(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX, float *y,
                  int64_t leadingY, bool accumulate, void *scratch) {
  float *panelX = static_cast<float *>(scratch), *panelY = panelX + weight.inputs() * panel;
  packPanel(x, tokens, weight.inputs(), leadingX, panelX);
  for (int64_t block = 0; block < weight.outputBlocks(); ++block) {
    const int64_t first = block * SparseMatrix::outputBlock,
                  count = std::min(SparseMatrix::outputBlock, weight.outputs() - first);
    if (accumulate)
      packPanel(y + first, tokens, count, leadingY, panelY);
    else
      std::fill_n(panelY, count * panel, 0.0f);
    for (int64_t input = 0; input < weight.inputBlocks(); ++input) {
      const float *blockX = panelX + input * SparseMatrix::inputBlock * panel;
      for (const SparseRun *run = weight.runsBegin(block, input); run != weight.runsEnd(block, input); ++run)
        addRun(weight.entries() + run->begin, weight.entries() + run->end, blockX,
               panelY + (run->output - first) * panel);
    }
    transpose<false>(panelY, count, tokens, panel, y + first, leadingY);
  }
}

/// The sums over lanes of as many vectors as a vector has lanes, in their order.
HWY_INLINE Vector sumsOf(const Vector (&v)[lanes]) {
  const Full d;
  if constexpr (lanes == 8 || lanes == 16) {
    const hn::Repartition<double, Full> wide;
    // Sums of neighbours twice, within halves; then the halves.
    auto pair = [&](Vector a, Vector b) {
      return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    };
    auto four = [&](Vector a, Vector b) {
      const auto x = hn::BitCast(wide, a), y = hn::BitCast(wide, b);
      return hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, x, y)),
                     hn::BitCast(d, hn::InterleaveUpper(wide, x, y)));
    };
    auto quarter = [&](int64_t i) { return four(pair(v[i], v[i + 1]), pair(v[i + 2], v[i + 3])); };
    auto halves = [&](Vector a, Vector b) {
      return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
    };
    if constexpr (lanes == 8) {
      return halves(quarter(0), quarter(4));
    } else {
      // Blocks of four lanes: (0, 0, 2, 2) and (1, 1, 3, 3) by number of the quarter, then one sum each.
      const Vector even = halves(quarter(0), quarter(8)), odd = halves(quarter(4), quarter(12));
      return hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd), even),
                     hn::OddEvenBlocks(odd, hn::SwapAdjacentBlocks(even)));
    }
  } else {
    HWY_ALIGN float sums[lanes];
    for (int64_t i = 0; i < lanes; ++i)
      sums[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
    return hn::Load(d, sums);
  }
}

/// The product of one entry's row of x with the output's dy, still in lanes.
HWY_INLINE Vector entryProduct(const SparseEntry &entry, const float *HWY_RESTRICT x,
                               const Vector (&dy)[vectors]) {
  const Full d;
  const float *row = x + static_cast<int64_t>(entry.input) * panel;
  Vector sum = hn::Mul(dy[0], hn::Load(d, row));
  HWY_UNROLL(8)
  for (int64_t v = 1; v < vectors; ++v)
    sum = hn::MulAdd(dy[v], hn::Load(d, row + v * lanes), sum);
  return sum;
}

HWY_INLINE void addRunGradient(const SparseEntry *HWY_RESTRICT entry, int64_t count,
                               const float *HWY_RESTRICT x, const float *HWY_RESTRICT dy,
                               float *HWY_RESTRICT sums) {
  const Full d;
  Vector output[vectors];
  HWY_UNROLL(8)
  for (int64_t v = 0; v < vectors; ++v)
    output[v] = hn::Load(d, dy + v * lanes);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Vector products[lanes];
    HWY_UNROLL(16)
    for (int64_t j = 0; j < lanes; ++j)
      products[j] = entryProduct(entry[i + j], x, output);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), sumsOf(products)), d, sums + i);
  }
  for (; i < count; ++i)
    sums[i] += hn::GetLane(hn::SumOfLanes(d, entryProduct(entry[i], x, output)));
}

uint64_t gradientScratch(const SparseMatrix &weight) {
  return productScratch(weight); // a panel of x and one of a block of dy
}

void weightGradient(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
                    const float *dy, int64_t leadingDy, float *sums, void *scratch) {
  float *panelX = static_cast<float *>(scratch), *panelDy = panelX + weight.inputs() * panel;
  std::fill_n(sums, weight.kept(), 0.0f);
  for (int64_t token = 0; token < tokens; token += panel) {
    const int64_t here = std::min(panel, tokens - token);
    packPanel(x + token * leadingX, here, weight.inputs(), leadingX, panelX);
    for (int64_t block = 0; block < weight.outputBlocks(); ++block) {
      const int64_t first = block * SparseMatrix::outputBlock,
                    count = std::min(SparseMatrix::outputBlock, weight.outputs() - first);
      packPanel(dy + token * leadingDy + first, here, count, leadingDy, panelDy);
      for (int64_t input = 0; input < weight.inputBlocks(); ++input) {
        const float *blockX = panelX + input * SparseMatrix::inputBlock * panel;
        for (const SparseRun *run = weight.runsBegin(block, input); run != weight.runsEnd(block, input);
             ++run)
          addRunGradient(weight.entries() + run->begin, run->end - run->begin, blockX,
                         panelDy + (run->output - first) * panel, sums + run->begin);
      }
    }
  }
}

} // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
HWY_EXPORT(panelTokens);
HWY_EXPORT(productScratch);
HWY_EXPORT(panelProduct);
HWY_EXPORT(gradientScratch);
HWY_EXPORT(weightGradient);

int64_t sparsePanelTokens() {
  return HWY_DYNAMIC_DISPATCH(panelTokens)();
}

uint64_t sparseProductScratchBytes(const SparseMatrix &weight) {
  return HWY_DYNAMIC_DISPATCH(productScratch)(weight);
}

void sparsePanelProduct(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
                        float *y, int64_t leadingY, bool accumulate, void *scratch) {
  HWY_DYNAMIC_DISPATCH(panelProduct)(weight, tokens, x, leadingX, y, leadingY, accumulate, scratch);
}

uint64_t sparseGradientScratchBytes(const SparseMatrix &weight) {
  return HWY_DYNAMIC_DISPATCH(gradientScratch)(weight);
}

void sparseWeightGradient(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
                          const float *dy, int64_t leadingDy, float *sums, void *scratch) {
  HWY_DYNAMIC_DISPATCH(weightGradient)(weight, tokens, x, leadingX, dy, leadingDy, sums, scratch);
}
} // namespace sluice::cpu
#endif
