#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/SimdGemm.h"

#include <cmath>
#include <limits>

namespace sluice::cpu {

namespace {

/// One block of queries of one head, with the online softmax of Milakov and Gimelshein 2018 over blocks of
/// keys.
struct ForwardTile {
  AttentionShape shape;
  const float *q, *k, *v, *sinks; // sinks: null if there are none
  float *out, *lse;

  void run(int64_t batch, int64_t head, int64_t begin, std::byte *scratch) const {
    const int64_t h = shape.headDim, hv = shape.valueDim;
    const int64_t qw = shape.queryWidth(), kw = shape.keyWidth(), vw = shape.valueWidth();
    const int64_t count = std::min(queryBlock, shape.sequence - begin);
    const int64_t keyHead = head / (shape.heads / shape.keyHeads);
    const float *queries = q + (batch * shape.sequence + begin) * qw + head * h;
    const float *keys = k + batch * shape.sequence * kw + keyHead * h;
    const float *values = v + batch * shape.sequence * vw + keyHead * hv;

    float *scores = reinterpret_cast<float *>(scratch);
    float *largest = scores + queryBlock * keyBlock, *mass = largest + queryBlock, *sum = mass + queryBlock;
    std::byte *gemmScratch = scratch + floatBytes(queryBlock * (keyBlock + 2)) + floatBytes(queryBlock * hv);
    // A sink is one more score that is there from the start and has no value.
    std::fill_n(largest, count, sinks ? sinks[head] : -std::numeric_limits<float>::infinity());
    std::fill_n(mass, count, sinks ? 1.0f : 0.0f);

    const int64_t first = shape.keyFirst(begin), limit = shape.keyLimit(begin, count);
    for (int64_t keyBegin = first; keyBegin < limit; keyBegin += keyBlock) {
      const int64_t block = std::min(keyBlock, limit - keyBegin);
      simdGemm(count, block, h, matrixView(queries, qw, false), matrixView(keys + keyBegin * kw, kw, true),
               scores, block, false, gemmScratch);
      for (int64_t i = 0; i < count; ++i) {
        float *row = scores + i * block;
        const int64_t from = shape.seenFrom(begin + i, keyBegin, block),
                      to = shape.seenTo(begin + i, keyBegin, block);
        if (to > from) {
          const float multiplier =
              shape.finishScores(row + from, to - from, head, begin + i, keyBegin + from);
          const float most = std::max(largest[i], multiplier * rowMax(row + from, to - from));
          const float shrink = std::exp(largest[i] - most);
          mass[i] = mass[i] * shrink + rowExp(row + from, to - from, multiplier, most, row + from);
          if (keyBegin > first)
            rowScale(sum + i * hv, hv, shrink, sum + i * hv);
          largest[i] = most;
        }
        std::fill(row, row + from, 0.0f);
        std::fill(row + to, row + block, 0.0f);
      }
      simdGemm(count, hv, block, matrixView(scores, block, false),
               matrixView(values + keyBegin * vw, vw, false), sum, hv, keyBegin > first, gemmScratch);
    }
    for (int64_t i = 0; i < count; ++i) {
      float *row = out + (batch * shape.sequence + begin + i) * shape.outWidth() + head * hv;
      rowScale(sum + i * hv, hv, 1.0f / mass[i], row);
      lse[(batch * shape.heads + head) * shape.sequence + begin + i] = largest[i] + std::log(mass[i]);
    }
  }
};

} // namespace

StatusOr<PreparedKernel> prepareAttentionForward(PrepareContext &context) {
  Arguments arguments(context);
  const AttentionOperands operands = readAttentionForward(arguments);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const AttentionShape shape = attentionShape(operands.settings);

  const ForwardTile body{shape,
                         operands.q.f32(),
                         operands.k.f32(),
                         operands.v.f32(),
                         operands.sinks.f32(),
                         operands.out.f32(),
                         operands.lse.f32()};
  PreparedKernel kernel;
  const int64_t h = shape.headDim, hv = shape.valueDim;
  kernel.scratchBytes =
      floatBytes(queryBlock * (keyBlock + 2)) + floatBytes(queryBlock * hv) +
      std::max(simdGemmScratchBytes(queryBlock, keyBlock, h), simdGemmScratchBytes(queryBlock, hv, keyBlock));
  const int64_t heads = shape.batch * shape.heads, blocks = shape.queryBlocks();
  kernel.stages.push_back({heads * blocks, [=](const Tile &tile) {
                             // Later queries see more keys when causal: the largest tiles come first.
                             const int64_t block = blocks - 1 - tile.index / heads, head = tile.index % heads;
                             body.run(head / shape.heads, head % shape.heads, block * queryBlock,
                                      tile.scratch);
                           }});
  return kernel;
}

} // namespace sluice::cpu
