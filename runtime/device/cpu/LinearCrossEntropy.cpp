#include "runtime/device/cpu/CrossEntropyRow.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Product.h"

// The head's product and its cross-entropy in chunks of tokens, so that only chunk x V logits exist at a
// time. Each chunk: logits by tiles over the vocabulary, softmax row by row, then dx and dw by products with
// the same logits.
namespace sluice::cpu {
namespace {

constexpr int64_t chunkTokens = 256;

struct Head {
  const float *x, *w;
  Targets targets;
  int64_t tokens, width, vocabulary;
  // Only for the gradient:
  const float *g = nullptr;
  float *dx = nullptr, *dw = nullptr;
  bool accumulate = false;

  uint64_t logitsBytes() const { return floatBytes(std::min(chunkTokens, tokens) * vocabulary); }
  static double *losses(const Tile &tile, uint64_t logitsBytes) {
    return reinterpret_cast<double *>(tile.workspace + logitsBytes);
  }

  /// Adds the stages of the tokens [begin, begin + count).
  Status addChunk(PreparedKernel &kernel, int64_t begin, int64_t count, int workers) const {
    ProductShape forward{count, vocabulary, width, width, width, vocabulary};
    forward.transposeB = true;
    SLUICE_ASSIGN_OR_RETURN(TiledProduct logits, TiledProduct::create(forward, workers, 256, 512));
    auto logitsProduct = std::make_shared<const TiledProduct>(std::move(logits));
    kernel.scratchBytes = std::max(kernel.scratchBytes, logitsProduct->scratchBytes());
    const float *chunkX = x + begin * width;
    kernel.stages.push_back({logitsProduct->tiles(), [=, w = w](const Tile &tile) {
                               logitsProduct->run(tile.index, tile.worker, chunkX, w, nullptr,
                                                  reinterpret_cast<float *>(tile.workspace), tile.scratch);
                             }});
    kernel.stages.push_back({count, [=, head = *this, bytes = logitsBytes()](const Tile &tile) {
                               float *row =
                                   reinterpret_cast<float *>(tile.workspace) + tile.index * head.vocabulary;
                               const int64_t token = begin + tile.index;
                               const int64_t target = head.targets.target(token, *tile.damage);
                               losses(tile, bytes)[token] =
                                   head.g
                                       ? crossEntropyGradientRow(row, head.vocabulary, target, *head.g, row)
                                       : crossEntropyRow(row, head.vocabulary, target);
                             }});
    return g ? addGradients(kernel, begin, count, workers) : absl::OkStatus();
  }

  /// dx and dw of a chunk in one stage, the long reductions of dx first.
  Status addGradients(PreparedKernel &kernel, int64_t begin, int64_t count, int workers) const {
    ProductShape inputs{count, width, vocabulary, vocabulary, width, width};
    ProductShape weights{vocabulary, width, count, vocabulary, width, width};
    weights.transposeA = true;
    weights.accumulate = accumulate || begin > 0;
    SLUICE_ASSIGN_OR_RETURN(TiledProduct dxMade, TiledProduct::create(inputs, workers, 64, 256));
    SLUICE_ASSIGN_OR_RETURN(TiledProduct dwMade, TiledProduct::create(weights, workers, 256, 256));
    auto dxProduct = std::make_shared<const TiledProduct>(std::move(dxMade));
    auto dwProduct = std::make_shared<const TiledProduct>(std::move(dwMade));
    kernel.scratchBytes =
        std::max({kernel.scratchBytes, dxProduct->scratchBytes(), dwProduct->scratchBytes()});
    const float *chunkX = x + begin * width;
    float *chunkDx = dx + begin * width;
    const int64_t dxTiles = dxProduct->tiles();
    kernel.stages.push_back(
        {dxTiles + dwProduct->tiles(), [=, w = w, dw = dw](const Tile &tile) {
           const float *dlogits = reinterpret_cast<const float *>(tile.workspace);
           if (tile.index < dxTiles)
             dxProduct->run(tile.index, tile.worker, dlogits, w, nullptr, chunkDx, tile.scratch);
           else
             dwProduct->run(tile.index - dxTiles, tile.worker, dlogits, chunkX, nullptr, dw, tile.scratch);
         }});
    return absl::OkStatus();
  }

  StatusOr<PreparedKernel> prepare(float *loss, int workers) const {
    PreparedKernel kernel;
    kernel.workspaceBytes = logitsBytes() + static_cast<uint64_t>(tokens) * sizeof(double);
    for (int64_t begin = 0; begin < tokens; begin += chunkTokens)
      SLUICE_RETURN_IF_ERROR(addChunk(kernel, begin, std::min(chunkTokens, tokens - begin), workers));
    if (tokens == 0 && dw && !accumulate)
      kernel.stages.push_back(rangeStage(vocabulary * width, 1 << 16, [dw = dw](int64_t from, int64_t to) {
        std::fill(dw + from, dw + to, 0.0f);
      }));
    kernel.stages.push_back({1, [loss, count = tokens, bytes = logitsBytes()](const Tile &tile) {
                               sumLosses(losses(tile, bytes), count, loss);
                             }});
    return kernel;
  }
};

Head readHead(Arguments &arguments) {
  const Tensor x = arguments.input(0), w = arguments.input(1);
  Head head{x.f32(), w.f32(), {}, x.rows(), x.dim(-1), w.dim(0)};
  head.targets = readTargets(arguments, 2, head.tokens, head.vocabulary);
  arguments.require(head.width > 0, "the width must not be zero");
  arguments.shape(w, {head.vocabulary, head.width}, "w");
  return head;
}

} // namespace

StatusOr<PreparedKernel> prepareLinearCrossEntropy(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Head head = readHead(arguments);
  const Tensor loss = arguments.output(0);
  arguments.elements(loss, 1, "the loss");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return head.prepare(loss.f32(), context.workers);
}

StatusOr<PreparedKernel> prepareLinearCrossEntropyGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(3);
  Head head = readHead(arguments);
  const Tensor g = arguments.input(3), loss = arguments.output(0), dx = arguments.output(1),
               dw = arguments.output(2);
  head.accumulate = arguments.flag("accumulate");
  arguments.elements(g, 1, "g");
  arguments.elements(loss, 1, "the loss");
  arguments.elements(dx, head.tokens * head.width, "dx");
  arguments.shape(dw, {head.vocabulary, head.width}, "dw");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  head.g = g.f32();
  head.dx = dx.f32();
  head.dw = dw.f32();
  return head.prepare(loss.f32(), context.workers);
}

} // namespace sluice::cpu
