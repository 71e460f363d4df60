#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/SimdGemm.h"

#include <algorithm>
#include <cmath>

namespace sluice::cpu {
namespace {

/// One key/value head of one sequence: it owns dk and dv, and dq of the query heads that read it, which come
/// in increasing order. Formulas of Dao et al. 2022 (FlashAttention, algorithm 4): P = exp(score - lse), dv =
/// P^T dout, dS = score' P (dout v^T - rowsum(dout * out)), dq = dS k, dk = dS^T q.
struct BackwardTile {
  AttentionShape shape;
  const float *q, *k, *v, *out, *lse, *dout;
  float *dq, *dk, *dv;

  void run(int64_t batch, int64_t keyHead, std::byte *scratch) const {
    const int64_t h = shape.headDim, hv = shape.valueDim, kw = shape.keyWidth(), vw = shape.valueWidth();
    const int64_t keyAt = batch * shape.sequence * kw + keyHead * h,
                  valueAt = batch * shape.sequence * vw + keyHead * hv;
    for (int64_t s = 0; s < shape.sequence; ++s) {
      std::fill_n(dk + keyAt + s * kw, h, 0.0f);
      std::fill_n(dv + valueAt + s * vw, hv, 0.0f);
    }
    const int64_t group = shape.heads / shape.keyHeads;
    for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
      for (int64_t begin = 0; begin < shape.sequence; begin += queryBlock)
        queries(batch, head, begin, keyAt, valueAt, scratch);
  }

  void queries(int64_t batch, int64_t head, int64_t begin, int64_t keyAt, int64_t valueAt,
               std::byte *scratch) const {
    const int64_t h = shape.headDim, hv = shape.valueDim;
    const int64_t qw = shape.queryWidth(), kw = shape.keyWidth(), vw = shape.valueWidth(),
                  ow = shape.outWidth();
    const int64_t count = std::min(queryBlock, shape.sequence - begin);
    const int64_t at = (batch * shape.sequence + begin) * qw + head * h,
                  outAt = (batch * shape.sequence + begin) * ow + head * hv;
    const float *logMass = lse + (batch * shape.heads + head) * shape.sequence + begin;

    float *p = reinterpret_cast<float *>(scratch);
    float *ds = p + queryBlock * keyBlock, *inner = ds + queryBlock * keyBlock, *slope = inner + queryBlock;
    std::byte *gemmScratch = scratch + floatBytes(queryBlock * (2 * keyBlock + 1) + keyBlock);
    for (int64_t i = 0; i < count; ++i)
      inner[i] = rowDot(dout + outAt + i * ow, out + outAt + i * ow, hv);

    const int64_t first = shape.keyFirst(begin), limit = shape.keyLimit(begin, count);
    for (int64_t keyBegin = first; keyBegin < limit; keyBegin += keyBlock) {
      const int64_t block = std::min(keyBlock, limit - keyBegin), key = keyAt + keyBegin * kw,
                    value = valueAt + keyBegin * vw;
      simdGemm(count, block, h, matrixView(q + at, qw, false), matrixView(k + key, kw, true), p, block, false,
               gemmScratch);
      simdGemm(count, block, hv, matrixView(dout + outAt, ow, false), matrixView(v + value, vw, true), ds,
               block, false, gemmScratch);
      for (int64_t i = 0; i < count; ++i)
        row(p + i * block, ds + i * block, block, head, begin + i, keyBegin, logMass[i], inner[i], slope);
      simdGemm(block, hv, count, matrixView(p, block, true), matrixView(dout + outAt, ow, false), dv + value,
               vw, true, gemmScratch);
      simdGemm(count, h, block, matrixView(ds, block, false), matrixView(k + key, kw, false), dq + at, qw,
               keyBegin > first, gemmScratch);
      simdGemm(block, h, count, matrixView(ds, block, true), matrixView(q + at, qw, false), dk + key, kw,
               true, gemmScratch);
    }
  }

  /// One query's row: products become probabilities, dP becomes dS; what the query does not see becomes zero.
  void row(float *p, float *ds, int64_t block, int64_t head, int64_t query, int64_t keyBegin, float logMass,
           float inner, float *slope) const {
    const int64_t from = shape.seenFrom(query, keyBegin, block), to = shape.seenTo(query, keyBegin, block),
                  seen = std::max<int64_t>(0, to - from);
    const float multiplier = shape.finishScores(p + from, seen, head, query, keyBegin + from, slope);
    rowExp(p + from, seen, multiplier, logMass, p + from);
    rowSoftmaxAdjoint(p + from, ds + from, seen, inner, shape.scale, ds + from);
    if (shape.softcap != 0)
      for (int64_t j = 0; j < seen; ++j)
        ds[from + j] *= slope[j];
    std::fill(p, p + from, 0.0f);
    std::fill(ds, ds + from, 0.0f);
    std::fill(p + to, p + block, 0.0f);
    std::fill(ds + to, ds + block, 0.0f);
  }

  /// A sink has no value, so its probability only takes from the others: the sum over rows in order.
  float sinkGradient(int64_t head, float sink) const {
    double sum = 0;
    for (int64_t batch = 0; batch < shape.batch; ++batch)
      for (int64_t s = 0; s < shape.sequence; ++s) {
        const int64_t at = (batch * shape.sequence + s) * shape.outWidth() + head * shape.valueDim;
        const float logMass = lse[(batch * shape.heads + head) * shape.sequence + s];
        sum -= std::exp(static_cast<double>(sink) - logMass) * rowDot(dout + at, out + at, shape.valueDim);
      }
    return static_cast<float>(sum);
  }
};

} // namespace

StatusOr<PreparedKernel> prepareAttentionBackward(PrepareContext &context) {
  Arguments arguments(context);
  const AttentionOperands operands = readAttentionBackward(arguments);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const AttentionShape shape = attentionShape(operands.settings);
  const Tensor sinks = operands.sinks, dsinks = operands.dsinks;

  const BackwardTile body{shape,
                          operands.q.f32(),
                          operands.k.f32(),
                          operands.v.f32(),
                          operands.out.f32(),
                          operands.lse.f32(),
                          operands.dout.f32(),
                          operands.dq.f32(),
                          operands.dk.f32(),
                          operands.dv.f32()};
  const int64_t h = std::max(shape.headDim, shape.valueDim);
  PreparedKernel kernel;
  kernel.scratchBytes =
      floatBytes(queryBlock * (2 * keyBlock + 1) + keyBlock) +
      std::max({simdGemmScratchBytes(queryBlock, keyBlock, h), simdGemmScratchBytes(queryBlock, h, keyBlock),
                simdGemmScratchBytes(keyBlock, h, queryBlock)});
  kernel.stages.push_back({shape.batch * shape.keyHeads, [=](const Tile &tile) {
                             body.run(tile.index / shape.keyHeads, tile.index % shape.keyHeads, tile.scratch);
                           }});
  if (shape.sinks)
    kernel.stages.push_back({shape.heads, [=](const Tile &tile) {
                               dsinks.f32()[tile.index] =
                                   body.sinkGradient(tile.index, sinks.f32()[tile.index]);
                             }});
  return kernel;
}

} // namespace sluice::cpu
