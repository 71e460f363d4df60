#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/SimdGemm.h"

#include <algorithm>

namespace sluice::cpu {
namespace {

/// One key/value head of one sequence: it owns dk and dv, and dq of the query heads that read it, which come
/// in increasing order. Formulas of Dao et al. 2022 (FlashAttention, algorithm 4): P = exp(scale q k^T -
/// lse), dv = P^T dout, dS = scale P (dout v^T - rowsum(dout * out)), dq = dS k, dk = dS^T q.
struct BackwardTile {
  AttentionShape shape;
  const float *q, *k, *v, *out, *lse, *dout;
  float *dq, *dk, *dv;

  void run(int64_t batch, int64_t keyHead, std::byte *scratch) const {
    const int64_t h = shape.headDim, kw = shape.keyWidth();
    const int64_t keyAt = batch * shape.sequence * kw + keyHead * h;
    for (int64_t s = 0; s < shape.sequence; ++s) {
      std::fill_n(dk + keyAt + s * kw, h, 0.0f);
      std::fill_n(dv + keyAt + s * kw, h, 0.0f);
    }
    const int64_t group = shape.heads / shape.keyHeads;
    for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
      for (int64_t begin = 0; begin < shape.sequence; begin += queryBlock)
        queries(batch, head, begin, keyAt, scratch);
  }

  void queries(int64_t batch, int64_t head, int64_t begin, int64_t keyAt, std::byte *scratch) const {
    const int64_t h = shape.headDim, qw = shape.queryWidth(), kw = shape.keyWidth();
    const int64_t count = std::min(queryBlock, shape.sequence - begin);
    const int64_t at = (batch * shape.sequence + begin) * qw + head * h;
    const float *logMass = lse + (batch * shape.heads + head) * shape.sequence + begin;

    float *p = reinterpret_cast<float *>(scratch);
    float *ds = p + queryBlock * keyBlock, *inner = ds + queryBlock * keyBlock;
    std::byte *gemmScratch = scratch + floatBytes(queryBlock * (2 * keyBlock + 1));
    for (int64_t i = 0; i < count; ++i)
      inner[i] = rowDot(dout + at + i * qw, out + at + i * qw, h);

    const int64_t limit = shape.keyLimit(begin, count);
    for (int64_t keyBegin = 0; keyBegin < limit; keyBegin += keyBlock) {
      const int64_t block = std::min(keyBlock, limit - keyBegin), key = keyAt + keyBegin * kw;
      simdGemm(count, block, h, matrixView(q + at, qw, false), matrixView(k + key, kw, true), p, block, false,
               gemmScratch);
      simdGemm(count, block, h, matrixView(dout + at, qw, false), matrixView(v + key, kw, true), ds, block,
               false, gemmScratch);
      for (int64_t i = 0; i < count; ++i) {
        float *pRow = p + i * block, *dsRow = ds + i * block;
        const int64_t seen = shape.visible(begin + i, keyBegin, block);
        rowExp(pRow, seen, shape.scale, logMass[i], pRow);
        rowSoftmaxAdjoint(pRow, dsRow, seen, inner[i], shape.scale, dsRow);
        std::fill(pRow + seen, pRow + block, 0.0f);
        std::fill(dsRow + seen, dsRow + block, 0.0f);
      }
      simdGemm(block, h, count, matrixView(p, block, true), matrixView(dout + at, qw, false), dv + key, kw,
               true, gemmScratch);
      simdGemm(count, h, block, matrixView(ds, block, false), matrixView(k + key, kw, false), dq + at, qw,
               keyBegin > 0, gemmScratch);
      simdGemm(block, h, count, matrixView(ds, block, true), matrixView(q + at, qw, false), dk + key, kw,
               true, gemmScratch);
    }
  }
};

} // namespace

StatusOr<PreparedKernel> prepareAttentionBackward(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(6);
  arguments.outputs(3);
  const Tensor q = arguments.input(0), k = arguments.input(1), v = arguments.input(2),
               out = arguments.input(3);
  const Tensor lse = arguments.input(4), dout = arguments.input(5);
  const Tensor dq = arguments.output(0), dk = arguments.output(1), dv = arguments.output(2);
  const AttentionShape shape = attentionShape(arguments, q, k, v);
  arguments.require(out.shape == q.shape && dout.shape == q.shape && dq.shape == q.shape,
                    "out, dout and dq must have q's shape");
  arguments.require(dk.shape == k.shape && dv.shape == k.shape, "dk and dv must have k's shape");
  arguments.elements(lse, shape.batch * shape.heads * shape.sequence, "lse");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  const BackwardTile body{shape,     q.f32(),    k.f32(),  v.f32(),  out.f32(),
                          lse.f32(), dout.f32(), dq.f32(), dk.f32(), dv.f32()};
  const int64_t h = shape.headDim;
  PreparedKernel kernel;
  kernel.scratchBytes =
      floatBytes(queryBlock * (2 * keyBlock + 1)) +
      std::max({simdGemmScratchBytes(queryBlock, keyBlock, h), simdGemmScratchBytes(queryBlock, h, keyBlock),
                simdGemmScratchBytes(keyBlock, h, queryBlock)});
  kernel.stages.push_back({shape.batch * shape.keyHeads, [=](const Tile &tile) {
                             body.run(tile.index / shape.keyHeads, tile.index % shape.keyHeads, tile.scratch);
                           }});
  return kernel;
}

} // namespace sluice::cpu
