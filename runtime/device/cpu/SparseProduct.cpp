#include "runtime/device/cpu/SparseProduct.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/device/cpu/SparseProduct.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// A panel is [features][panelTokens]: the tokens of one feature lie side by side. The sums of a run's outputs
// stay in registers while its entries read one row of the panel each. Independent sums hide the latency of a
// multiply-add, and a row that is read for several outputs (entries of blocks) is read once.

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

/// Vectors of tokens that a run of so many outputs sums at once: what the registers hold.
template <int height> constexpr int64_t vectorsAtOnce() {
  return height == 1 ? vectors : (lanes >= 16 ? 16 : 8) / height;
}

/// The entries of a run: one input and `height` weights each.
struct RunEntries {
  const uint32_t *inputs;
  const float *values;
  int64_t count;
};

template <int height> HWY_INLINE RunEntries entriesOf(const SparseMatrix &weight, const SparseRun &run) {
  return {weight.entryInputs() + run.begin, weight.values() + static_cast<int64_t>(run.begin) * height,
          run.end - run.begin};
}

/// Adds a run's products to the sums of its outputs, [height][panel].
template <int height>
HWY_INLINE void addRun(const RunEntries &entries, const float *HWY_RESTRICT x, float *HWY_RESTRICT y) {
  const Full d;
  constexpr int64_t width = vectorsAtOnce<height>();
  for (int64_t first = 0; first < vectors; first += width) {
    float *HWY_RESTRICT sums = y + first * lanes;
    Vector sum[height][width];
    HWY_UNROLL(4)
    for (int row = 0; row < height; ++row) {
      HWY_UNROLL(8)
      for (int64_t v = 0; v < width; ++v)
        sum[row][v] = hn::Load(d, sums + row * panel + v * lanes);
    }
    const float *HWY_RESTRICT value = entries.values;
    for (int64_t entry = 0; entry < entries.count; ++entry, value += height) {
      const float *HWY_RESTRICT source =
          x + static_cast<int64_t>(entries.inputs[entry]) * panel + first * lanes;
      Vector weight[height];
      HWY_UNROLL(4)
      for (int row = 0; row < height; ++row)
        weight[row] = hn::Set(d, value[row]);
      HWY_UNROLL(8)
      for (int64_t v = 0; v < width; ++v) {
        const Vector tokens = hn::Load(d, source + v * lanes);
        HWY_UNROLL(4)
        for (int row = 0; row < height; ++row)
          sum[row][v] = hn::MulAdd(weight[row], tokens, sum[row][v]);
      }
    }
    HWY_UNROLL(4)
    for (int row = 0; row < height; ++row) {
      HWY_UNROLL(8)
      for (int64_t v = 0; v < width; ++v)
        hn::Store(sum[row][v], d, sums + row * panel + v * lanes);
    }
  }
}

uint64_t productScratch(const SparseMatrix &weight) {
  return static_cast<uint64_t>(weight.inputs() + std::min(weight.outputs(), SparseMatrix::outputBlock)) *
         panel * sizeof(float);
}

template <int height>
void panelProductOf(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX, float *y,
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
        addRun<height>(entriesOf<height>(weight, *run), blockX, panelY + (run->output - first) * panel);
    }
    transpose<false>(panelY, count, tokens, panel, y + first, leadingY);
  }
}

void panelProduct(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX, float *y,
                  int64_t leadingY, bool accumulate, void *scratch) {
  const auto product = weight.height() == 4   ? panelProductOf<4>
                       : weight.height() == 2 ? panelProductOf<2>
                                              : panelProductOf<1>;
  product(weight, tokens, x, leadingX, y, leadingY, accumulate, scratch);
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

/// The product of one row of x with an output's dy, still in lanes.
HWY_INLINE Vector rowProduct(const float *HWY_RESTRICT row, const Vector (&dy)[vectors]) {
  const Full d;
  Vector sum = hn::Mul(dy[0], hn::Load(d, row));
  HWY_UNROLL(8)
  for (int64_t v = 1; v < vectors; ++v)
    sum = hn::MulAdd(dy[v], hn::Load(d, row + v * lanes), sum);
  return sum;
}

/// Adds to `sums` the products of a run of single outputs: dy stays in registers.
HWY_INLINE void addRunGradient(const RunEntries &entries, const float *HWY_RESTRICT x,
                               const float *HWY_RESTRICT dy, float *HWY_RESTRICT sums) {
  const Full d;
  Vector output[vectors];
  HWY_UNROLL(8)
  for (int64_t v = 0; v < vectors; ++v)
    output[v] = hn::Load(d, dy + v * lanes);
  auto row = [&](int64_t entry) { return x + static_cast<int64_t>(entries.inputs[entry]) * panel; };
  int64_t i = 0;
  for (; i + lanes <= entries.count; i += lanes) {
    Vector products[lanes];
    HWY_UNROLL(16)
    for (int64_t j = 0; j < lanes; ++j)
      products[j] = rowProduct(row(i + j), output);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), sumsOf(products)), d, sums + i);
  }
  for (; i < entries.count; ++i)
    sums[i] += hn::GetLane(hn::SumOfLanes(d, rowProduct(row(i), output)));
}

/// The same for several outputs: as many products at once as a vector has lanes, each vector of x and of dy
/// read once for all that need it.
template <int height>
HWY_INLINE void addRunGradients(const RunEntries &entries, const float *HWY_RESTRICT x,
                                const float *HWY_RESTRICT dy, float *HWY_RESTRICT sums) {
  static_assert(lanes % height == 0);
  const Full d;
  constexpr int64_t atOnce = lanes / height;
  for (int64_t i = 0; i < entries.count; i += atOnce) {
    // A last entry stands for those that are missing; its sums are not added twice.
    const float *rows[atOnce];
    HWY_UNROLL(16)
    for (int64_t j = 0; j < atOnce; ++j)
      rows[j] = x + static_cast<int64_t>(entries.inputs[std::min(i + j, entries.count - 1)]) * panel;
    Vector products[lanes];
    HWY_UNROLL(16)
    for (Vector &product : products)
      product = hn::Zero(d);
    for (int64_t v = 0; v < vectors; ++v) {
      Vector output[height];
      HWY_UNROLL(4)
      for (int row = 0; row < height; ++row)
        output[row] = hn::Load(d, dy + row * panel + v * lanes);
      HWY_UNROLL(16)
      for (int64_t j = 0; j < atOnce; ++j) {
        const Vector tokens = hn::Load(d, rows[j] + v * lanes);
        HWY_UNROLL(4)
        for (int row = 0; row < height; ++row)
          products[j * height + row] = hn::MulAdd(output[row], tokens, products[j * height + row]);
      }
    }
    const Vector added = sumsOf(products);
    float *HWY_RESTRICT target = sums + i * height;
    const int64_t wanted = (entries.count - i) * height;
    if (wanted >= lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, target), added), d, target);
    } else {
      HWY_ALIGN float tail[lanes];
      hn::Store(added, d, tail);
      for (int64_t k = 0; k < wanted; ++k)
        target[k] += tail[k];
    }
  }
}

uint64_t gradientScratch(const SparseMatrix &weight) {
  return productScratch(weight); // a panel of x and one of a block of dy
}

template <int height>
void weightGradientOf(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
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
             ++run) {
          const RunEntries entries = entriesOf<height>(weight, *run);
          const float *outputs = panelDy + (run->output - first) * panel;
          float *target = sums + static_cast<int64_t>(run->begin) * height;
          if constexpr (height == 1)
            addRunGradient(entries, blockX, outputs, target);
          else
            addRunGradients<height>(entries, blockX, outputs, target);
        }
      }
    }
  }
}

void weightGradient(const SparseMatrix &weight, int64_t tokens, const float *x, int64_t leadingX,
                    const float *dy, int64_t leadingDy, float *sums, void *scratch) {
  const auto product = weight.height() == 4   ? weightGradientOf<4>
                       : weight.height() == 2 ? weightGradientOf<2>
                                              : weightGradientOf<1>;
  product(weight, tokens, x, leadingX, dy, leadingDy, sums, scratch);
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
