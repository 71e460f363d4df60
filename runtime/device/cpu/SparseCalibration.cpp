#include "runtime/device/cpu/SparseCalibration.h"

#include "runtime/device/cpu/Memory.h"
#include "runtime/device/cpu/Product.h"
#include "runtime/device/cpu/SparseProduct.h"
#include "runtime/support/Philox.h"

#include <chrono>
#include <vector>

namespace sluice::cpu {
namespace {

/// Larger matrices behave like this one: blocks of both kinds of kernels fit in it several times.
constexpr int64_t largestSide = 1024;
/// The densities that are timed; both are below the break-even of every host seen.
constexpr double densities[] = {0.05, 0.2};
constexpr double largestPercent = 50, largestPercentOfBlocks = 90;
constexpr int repeats = 3;

template <typename Body> double bestSeconds(Body body) {
  double best = 1e30;
  for (int run = 0; run < repeats; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// C = op(A) op(B) by the tiles that a dense command would use.
double denseSeconds(const ProductShape &shape, const std::vector<float> &a, const std::vector<float> &b,
                    std::vector<float> &c) {
  StatusOr<TiledProduct> product = TiledProduct::create(shape, 1);
  if (!product.ok())
    return 0;
  StatusOr<HostBlock> scratch = HostBlock::allocate(std::max<uint64_t>(product->scratchBytes(), 64)),
                      packed = HostBlock::allocate(std::max<uint64_t>(product->packedBytes(), 64));
  if (!scratch.ok() || !packed.ok())
    return 0;
  float *copy = product->packedBytes() ? reinterpret_cast<float *>(packed->data()) : nullptr;
  for (int64_t tile = 0; copy && tile < product->packTiles(); ++tile)
    product->pack(tile, 0, b.data(), copy);
  return bestSeconds([&] {
    for (int64_t tile = 0; tile < product->tiles(); ++tile)
      product->run(tile, 0, a.data(), b.data(), copy, c.data(), scratch->data());
  });
}

struct Seconds {
  double product, inputGradient, weightGradient;
};

class Calibration {
public:
  explicit Calibration(const MaskedShape &shape)
      : blockRows(shape.blockRows), blockColumns(shape.blockColumns), outputs(cut(shape.outputs, blockRows)),
        inputs(cut(shape.inputs, blockColumns)), tokens(2 * sparsePanelTokens()),
        x(elements(tokens, inputs), 0.5f), y(elements(tokens, outputs), 0.25f),
        w(elements(outputs, inputs), 0.125f), result(std::max({x.size(), y.size(), w.size()})) {}

  BreakEven run() {
    const Seconds dense = denseTimes(), thin = sparseTimes(densities[0]), thick = sparseTimes(densities[1]);
    return {meet(dense.product, thin.product, thick.product),
            meet(dense.inputGradient, thin.inputGradient, thick.inputGradient),
            meet(dense.weightGradient, thin.weightGradient, thick.weightGradient)};
  }

private:
  /// A side that whole blocks fill, of about the largest size at most.
  static int64_t cut(int64_t side, int64_t block) {
    return side <= largestSide ? side : std::max(block, largestSide / block * block);
  }
  bool keepsBlocks() const { return blockRows * blockColumns > 1; }
  static size_t elements(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

  /// Where the line through both measurements meets the dense time.
  double meet(double dense, double thin, double thick) const {
    if (dense <= 0 || thin <= 0 || thick <= 0)
      return 0;
    const double most = keepsBlocks() ? largestPercentOfBlocks : largestPercent;
    const double slope = (thick - thin) / (densities[1] - densities[0]);
    if (slope <= 0) // noise: skipping costs nothing that can be seen
      return dense > thick ? most : 0;
    return std::clamp(100 * (densities[0] + (dense - thin) / slope), 0.0, most);
  }

  double denseTime(const ProductShape &shape, const std::vector<float> &a, const std::vector<float> &b) {
    return denseSeconds(shape, a, b, result);
  }

  Seconds denseTimes() {
    ProductShape product{tokens, outputs, inputs, inputs, inputs, outputs};
    product.transposeB = product.packB = true;
    ProductShape back{tokens, inputs, outputs, outputs, inputs, inputs};
    back.packB = true;
    ProductShape gradient{outputs, inputs, tokens, outputs, inputs, inputs};
    gradient.transposeA = true;
    return {denseTime(product, x, w), denseTime(back, y, w), denseTime(gradient, y, x)};
  }

  Seconds sparseTimes(double density) {
    const int64_t size = outputs * inputs;
    std::vector<uint64_t> mask(static_cast<size_t>((size + 63) / 64));
    const PhiloxStream random(1, streamKey("calibration"));
    const auto limit = static_cast<uint64_t>(density * 4294967296.0);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t row = i / inputs / blockRows * blockRows,
                    column = i % inputs / blockColumns * blockColumns;
      if (random.bits(static_cast<uint64_t>(row * inputs + column)) < limit)
        mask[static_cast<size_t>(i / 64)] |= uint64_t{1} << (i % 64);
    }
    SparseMatrix forward(outputs, inputs, size, SparseMatrix::heightFor(blockRows)),
        backward(inputs, outputs, size, SparseMatrix::heightFor(blockColumns));
    forward.build(mask.data(), 0, false), backward.build(mask.data(), 0, true);
    forward.refresh(w.data()), backward.refresh(w.data());
    std::vector<float> sums(static_cast<size_t>(std::max<int64_t>(forward.kept(), 1)));
    StatusOr<HostBlock> scratch =
        HostBlock::allocate(std::max({sparseProductScratchBytes(forward), sparseProductScratchBytes(backward),
                                      sparseGradientScratchBytes(forward)}));
    if (!scratch.ok())
      return {};
    auto panels = [&](const SparseMatrix &weight, const std::vector<float> &from) {
      const int64_t panel = sparsePanelTokens();
      return bestSeconds([&] {
        for (int64_t first = 0; first < tokens; first += panel)
          sparsePanelProduct(weight, panel, from.data() + first * weight.inputs(), weight.inputs(),
                             result.data() + first * weight.outputs(), weight.outputs(), /*accumulate=*/false,
                             scratch->data());
      });
    };
    return {panels(forward, x), panels(backward, y), bestSeconds([&] {
              sparseWeightGradient(forward, tokens, x.data(), inputs, y.data(), outputs, sums.data(),
                                   scratch->data());
            })};
  }

  int64_t blockRows, blockColumns, outputs, inputs, tokens;
  std::vector<float> x, y, w, result;
};

} // namespace

BreakEven measureBreakEven(const MaskedShape &shape) {
  return Calibration(shape).run();
}

} // namespace sluice::cpu
