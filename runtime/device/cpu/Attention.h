// The operands that attention's forward and backward share.
#pragma once

#include "runtime/device/cpu/Arguments.h"

namespace sluice::cpu {

/// Queries are taken in blocks of this many rows and keys in blocks of this many, so no S x S matrix exists.
inline constexpr int64_t queryBlock = 64, keyBlock = 256;

struct AttentionShape {
  int64_t batch, sequence, heads, keyHeads, headDim;
  bool causal;
  float scale;

  int64_t queryWidth() const { return heads * headDim; }
  int64_t keyWidth() const { return keyHeads * headDim; }
  int64_t queryBlocks() const { return ceilDivide(sequence, queryBlock); }
  /// One past the last key that any of the queries [begin, begin + count) sees.
  int64_t keyLimit(int64_t begin, int64_t count) const { return causal ? begin + count : sequence; }
  /// How many of the keys [keyBegin, keyBegin + keys) the query sees.
  int64_t visible(int64_t query, int64_t keyBegin, int64_t keys) const {
    return causal ? std::clamp<int64_t>(query + 1 - keyBegin, 0, keys) : keys;
  }
};

/// Reads the attributes and checks q, k, v against them.
AttentionShape attentionShape(Arguments &arguments, const Tensor &q, const Tensor &k, const Tensor &v);

} // namespace sluice::cpu
