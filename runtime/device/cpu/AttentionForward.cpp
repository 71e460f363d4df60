#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/SimdGemm.h"

#include <cmath>
#include <limits>

namespace sluice::cpu {

AttentionShape attentionShape(Arguments &arguments, const Tensor &q, const Tensor &k, const Tensor &v) {
  AttentionShape shape{};
  shape.batch = q.dim(0);
  shape.sequence = q.dim(1);
  shape.heads = arguments.integer("heads", 1, 1 << 16);
  shape.keyHeads = arguments.integer("kv_heads", 1, 1 << 16);
  shape.headDim = arguments.integer("head_dim", 1, 1 << 16);
  shape.causal = arguments.integer("causal", 0, 1) == 1;
  const double scale = arguments.number("scale");
  shape.scale = static_cast<float>(scale);
  arguments.require(scale > 0 && std::isfinite(scale), "scale must be positive");
  arguments.require(shape.heads % shape.keyHeads == 0, "heads must be a multiple of kv_heads");
  arguments.require(q.rank() == 3, "q must be [B, S, heads * head_dim]");
  arguments.shape(q, {shape.batch, shape.sequence, shape.queryWidth()}, "q");
  arguments.shape(k, {shape.batch, shape.sequence, shape.keyWidth()}, "k");
  arguments.shape(v, {shape.batch, shape.sequence, shape.keyWidth()}, "v");
  return shape;
}

namespace {

/// One block of queries of one head, with the online softmax of Milakov and Gimelshein 2018 over blocks of
/// keys.
struct ForwardTile {
  AttentionShape shape;
  const float *q, *k, *v;
  float *out, *lse;

  void run(int64_t batch, int64_t head, int64_t begin, std::byte *scratch) const {
    const int64_t h = shape.headDim, qw = shape.queryWidth(), kw = shape.keyWidth();
    const int64_t count = std::min(queryBlock, shape.sequence - begin);
    const int64_t keyHead = head / (shape.heads / shape.keyHeads);
    const float *queries = q + (batch * shape.sequence + begin) * qw + head * h;
    const float *keys = k + batch * shape.sequence * kw + keyHead * h;
    const float *values = v + batch * shape.sequence * kw + keyHead * h;

    float *scores = reinterpret_cast<float *>(scratch);
    float *largest = scores + queryBlock * keyBlock, *mass = largest + queryBlock, *sum = mass + queryBlock;
    std::byte *gemmScratch = scratch + floatBytes(queryBlock * (keyBlock + 2)) + floatBytes(queryBlock * h);
    std::fill_n(largest, count, -std::numeric_limits<float>::infinity());
    std::fill_n(mass, count, 0.0f);

    const int64_t limit = shape.keyLimit(begin, count);
    for (int64_t keyBegin = 0; keyBegin < limit; keyBegin += keyBlock) {
      const int64_t block = std::min(keyBlock, limit - keyBegin);
      simdGemm(count, block, h, matrixView(queries, qw, false), matrixView(keys + keyBegin * kw, kw, true),
               scores, block, false, gemmScratch);
      for (int64_t i = 0; i < count; ++i) {
        float *row = scores + i * block;
        const int64_t seen = shape.visible(begin + i, keyBegin, block);
        if (seen > 0) {
          const float most = std::max(largest[i], shape.scale * rowMax(row, seen));
          const float shrink = std::exp(largest[i] - most);
          mass[i] = mass[i] * shrink + rowExp(row, seen, shape.scale, most, row);
          if (keyBegin > 0)
            rowScale(sum + i * h, h, shrink, sum + i * h);
          largest[i] = most;
        }
        std::fill(row + seen, row + block, 0.0f);
      }
      simdGemm(count, h, block, matrixView(scores, block, false),
               matrixView(values + keyBegin * kw, kw, false), sum, h, keyBegin > 0, gemmScratch);
    }
    for (int64_t i = 0; i < count; ++i) {
      rowScale(sum + i * h, h, 1.0f / mass[i], out + (batch * shape.sequence + begin + i) * qw + head * h);
      lse[(batch * shape.heads + head) * shape.sequence + begin + i] = largest[i] + std::log(mass[i]);
    }
  }
};

} // namespace

StatusOr<PreparedKernel> prepareAttentionForward(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(2);
  const Tensor q = arguments.input(0), k = arguments.input(1), v = arguments.input(2);
  const Tensor out = arguments.output(0), lse = arguments.output(1);
  const AttentionShape shape = attentionShape(arguments, q, k, v);
  arguments.require(out.shape == q.shape, "out must have q's shape");
  arguments.elements(lse, shape.batch * shape.heads * shape.sequence, "lse");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  const ForwardTile body{shape, q.f32(), k.f32(), v.f32(), out.f32(), lse.f32()};
  PreparedKernel kernel;
  const int64_t h = shape.headDim;
  kernel.scratchBytes =
      floatBytes(queryBlock * (keyBlock + 2)) + floatBytes(queryBlock * h) +
      std::max(simdGemmScratchBytes(queryBlock, keyBlock, h), simdGemmScratchBytes(queryBlock, h, keyBlock));
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
