// What attention's forward and backward share: settings, which keys a query sees, and the scores of one row.
#pragma once

#include "runtime/abi/Tiles.h"
#include "runtime/device/AttentionArguments.h"
#include "runtime/device/cpu/Kernel.h"

namespace sluice::cpu {

/// Queries are taken in blocks of this many rows and keys in blocks of this many, so no S x S matrix exists.
inline constexpr int64_t queryBlock = tiles::attentionQueries, keyBlock = 256;

struct AttentionShape {
  int64_t batch, sequence, heads, keyHeads, headDim, valueDim;
  int64_t window; // 0: none
  bool causal, sinks;
  float scale, softcap;                             // softcap 0: none
  std::shared_ptr<const std::vector<float>> slopes; // null: none

  int64_t queryWidth() const { return heads * headDim; }
  int64_t keyWidth() const { return keyHeads * headDim; }
  int64_t valueWidth() const { return keyHeads * valueDim; }
  int64_t outWidth() const { return heads * valueDim; }
  int64_t queryBlocks() const { return ceilDivide(sequence, queryBlock); }
  /// The first key, and one past the last, that any of the queries [begin, begin + count) sees.
  int64_t keyFirst(int64_t begin) const { return window > 0 ? std::max<int64_t>(0, begin - window + 1) : 0; }
  int64_t keyLimit(int64_t begin, int64_t count) const { return causal ? begin + count : sequence; }
  /// Of the keys [keyBegin, keyBegin + keys) the query sees [seenFrom, seenTo), counted from keyBegin.
  int64_t seenFrom(int64_t query, int64_t keyBegin, int64_t keys) const {
    return window > 0 ? std::clamp<int64_t>(query - window + 1 - keyBegin, 0, keys) : 0;
  }
  int64_t seenTo(int64_t query, int64_t keyBegin, int64_t keys) const {
    return causal ? std::clamp<int64_t>(query + 1 - keyBegin, 0, keys) : keys;
  }

  /// Makes scores of n products <q, k> in place, all but a last multiplication by the returned number. The
  /// first product is that of key `key`. With a cap, `derivative` (if not null) gets d score / d (scale *
  /// product).
  float finishScores(float *row, int64_t n, int64_t head, int64_t query, int64_t key,
                     float *derivative = nullptr) const;
};

AttentionShape attentionShape(const AttentionArguments &settings);

} // namespace sluice::cpu
