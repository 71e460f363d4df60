#include "frontends/decoder/AttentionParts.h"

using namespace mlir;

namespace sluice {
namespace {

/// [batch, seq, heads * (plainDim + headDim)], from a latent of their own or straight from the stream.
Value projectQueries(GraphParts &parts, Value n) {
  const DecoderConfig &config = parts.config;
  const LatentAttention &latent = *config.latent;
  const std::string layer = config.names.layer + "self_attn.";
  const int64_t out = config.heads * (latent.plainDim + config.headDim);
  Value query;
  if (latent.queryRank > 0) {
    query = parts.linear("q_latent", "wq_a", "attention", n, config.width, latent.queryRank,
                         layer + "q_a_proj", config.attentionBias);
    query = parts.rmsNorm("q_latent", query, "q_norm", latent.queryRank, latent.normEpsilon,
                          layer + "q_a_layernorm");
    query = parts.linear("q", "wq_b", "attention", query, latent.queryRank, out, layer + "q_b_proj", false);
  } else {
    query = parts.linear("q", "wq", "attention", n, config.width, out, layer + "q_proj", false);
  }
  return rotated(parts, "q_rotated", query, config.heads, latent.plainDim, /*interleaved=*/true);
}

} // namespace

Qkv projectLatent(GraphParts &parts, Value n) {
  const DecoderConfig &config = parts.config;
  const LatentAttention &latent = *config.latent;
  const std::string layer = config.names.layer + "self_attn.";
  const int64_t heads = config.heads, plain = latent.plainDim, rotary = config.headDim, dim = latent.valueDim;
  Value query = projectQueries(parts, n);

  // One latent for keys and values, and beside it the rotary part of the key, the same for all heads.
  Value both = parts.linear("kv_latent", "wkv_a", "attention", n, config.width, latent.rank + rotary,
                            layer + "kv_a_proj_with_mqa", config.attentionBias);
  Value low = parts.rmsNorm("kv_low", parts.slice("kv_low", both, 0, latent.rank), "kv_norm", latent.rank,
                            latent.normEpsilon, layer + "kv_a_layernorm");
  Value wide = parts.linear("kv", "wkv_b", "attention", low, latent.rank, heads * (plain + dim),
                            layer + "kv_b_proj", false);
  wide = parts.splitHeads("kv_heads", wide, heads, plain + dim);

  Value shared = rotated(parts, "k_rotated", parts.slice("k_rotary", both, latent.rank, rotary), 1, 0,
                         /*interleaved=*/true);
  shared = BroadcastOp::create(parts.builder, parts.at("k_shared"),
                               parts.splitHeads("k_shared", shared, 1, rotary),
                               parts.builder.getDenseI64ArrayAttr({-1, -1, heads, -1}));
  Value key = ConcatOp::create(parts.builder, parts.at("k"),
                               ValueRange{parts.slice("k_plain", wide, 0, plain), shared}, parts.integer(3));
  return {query, parts.joinHeads("k", key, heads, plain + rotary),
          parts.joinHeads("v", parts.slice("v", wide, plain, dim), heads, dim)};
}

} // namespace sluice
