#include "frontends/decoder/AttentionParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// The three projections, from however the weights are stored.
Qkv project(GraphParts &parts, Value x) {
  const DecoderConfig &config = parts.config;
  const CheckpointNames &names = config.names;
  const int64_t q = config.heads * config.headDim, kv = config.kvHeads * config.headDim;
  auto product = [&](StringRef name, StringRef weight, int64_t out, const std::string &checkpoint) {
    return parts.linear(name, weight, "attention", x, config.width, out, names.layer + checkpoint,
                        config.attentionBias);
  };
  if (config.qkvStorage == QkvStorage::Separate) {
    Value query = product("q", "wq", q, names.q), key = product("k", "wk", kv, names.k);
    return {query, key, product("v", "wv", kv, names.v)};
  }
  Value all = product("qkv", "wqkv", q + 2 * kv, names.qkv);
  if (config.qkvStorage == QkvStorage::Joined)
    return {parts.slice("q", all, 0, q), parts.slice("k", all, q, kv), parts.slice("v", all, q + kv, kv)};
  // Query, key and value of each head in turn; there are as many key heads as query heads.
  Value heads = parts.splitHeads("qkv_heads", all, config.heads, 3 * config.headDim);
  auto part = [&](StringRef name, int64_t index) {
    return parts.joinHeads(name, parts.slice(name, heads, index * config.headDim, config.headDim),
                           config.heads, config.headDim);
  };
  return {part("q", 0), part("k", 1), part("v", 2)};
}

Value normalized(GraphParts &parts, StringRef name, Value x, int64_t heads, const std::string &checkpoint) {
  const int64_t dim = parts.config.headDim;
  switch (parts.config.queryKeyNorm) {
  case QueryKeyNorm::None:
    return x;
  case QueryKeyNorm::Whole:
    return parts.norm(name, x, name, heads * dim, parts.config.names.layer + checkpoint);
  case QueryKeyNorm::Head:
    x = parts.splitHeads(name, x, heads, dim);
    return parts.joinHeads(name, parts.norm(name, x, name, dim, parts.config.names.layer + checkpoint), heads,
                           dim);
  }
  llvm_unreachable("a kind of norm without a case");
}

Value clipped(GraphParts &parts, StringRef name, Value x) {
  const double clip = parts.config.clipQkv;
  if (clip == 0)
    return x;
  return buildMap(parts.builder, parts.at(name), x,
                  [&](OpBuilder &inner, Location loc, ValueRange s) -> Value {
                    Scalars scalars(inner, loc);
                    Type type = s[0].getType();
                    Value below = arith::MinimumFOp::create(inner, loc, s[0], scalars.constant(clip, type));
                    return arith::MaximumFOp::create(inner, loc, below, scalars.constant(-clip, type));
                  });
}

/// Slopes of ALiBi (Press et al. 2022): 2^(-8 i / n) for n heads, a power of two; otherwise those of the next
/// lower power of two, then every second one of twice as many.
std::vector<double> alibiSlopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads)
    power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(power)));
  return slopes;
}

/// Projections, norms, clipping and rotation of grouped-query attention.
Qkv projectGrouped(GraphParts &parts, Value n) {
  const DecoderConfig &config = parts.config;
  Qkv qkv = project(parts, n);
  qkv.q = normalized(parts, "q_norm", qkv.q, config.heads, config.names.qNorm);
  qkv.k = normalized(parts, "k_norm", qkv.k, config.kvHeads, config.names.kNorm);
  qkv = {clipped(parts, "q_clipped", qkv.q), clipped(parts, "k_clipped", qkv.k),
         clipped(parts, "v_clipped", qkv.v)};
  qkv.q = rotated(parts, "q_rotated", qkv.q, config.heads);
  qkv.k = rotated(parts, "k_rotated", qkv.k, config.kvHeads);
  return qkv;
}

} // namespace

Value rotated(GraphParts &parts, StringRef name, Value x, int64_t heads, int64_t offset, bool interleaved) {
  const RotaryConfig &rotary = parts.config.rotary;
  if (!rotary.present)
    return x;
  const bool part = rotary.dim != 0 && rotary.dim != parts.config.headDim;
  return RopeOp::create(parts.builder, parts.at(name), x, parts.integer(heads),
                        parts.number(parts.config.ropeTheta), parts.builder.getBoolAttr(false),
                        offset ? parts.integer(offset) : IntegerAttr(),
                        part ? parts.integer(rotary.dim) : IntegerAttr(),
                        interleaved ? parts.builder.getBoolAttr(true) : BoolAttr(),
                        rotary.factor == 1 ? FloatAttr() : parts.number(rotary.factor),
                        rotary.frequencies.empty() ? DenseF64ArrayAttr()
                                                   : parts.builder.getDenseF64ArrayAttr(rotary.frequencies));
}

Value buildAttention(GraphParts &parts, Value x, const LayerConfig &layer) {
  const DecoderConfig &config = parts.config;
  const CheckpointNames &names = config.names;
  Value n = parts.norm("normalized", x, "norm", config.width, names.layer + names.attentionNorm);
  const Qkv qkv = config.latent ? projectLatent(parts, n) : projectGrouped(parts, n);
  const int64_t queryDim = config.headDim + (config.latent ? config.latent->plainDim : 0);
  const int64_t valueDim = config.latent ? config.latent->valueDim : config.headDim;
  const double scale =
      config.attentionScale != 0 ? config.attentionScale : 1.0 / std::sqrt(static_cast<double>(queryDim));
  Value sinks = config.sinks ? parts.param("sinks", "attention", {config.heads}, parts.fill(0),
                                           names.layer + names.sinks)
                             : Value();
  auto attended = AttentionOp::create(
      parts.builder, parts.at("attended"), qkv.q, qkv.k, qkv.v, sinks, parts.integer(config.heads),
      parts.integer(config.kvHeads), parts.builder.getBoolAttr(true), parts.number(scale),
      layer.window ? parts.integer(layer.window) : IntegerAttr(),
      config.attentionSoftcap != 0 ? parts.number(config.attentionSoftcap) : FloatAttr(),
      config.alibi ? parts.builder.getDenseF64ArrayAttr(alibiSlopes(config.heads)) : DenseF64ArrayAttr());
  Value out =
      parts.linear("attention_out", "wo", "attention", attended.getOut(), config.heads * valueDim,
                   config.width, names.layer + names.out, config.attentionBias && config.attentionOutputBias);
  if (config.postNorms)
    out = parts.norm("out_normalized", out, "post_norm", config.width, names.layer + names.attentionPostNorm);
  return out;
}

} // namespace sluice
