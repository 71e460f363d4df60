// Attention, one warp a row and eight rows of a head a block, no matrix of scores in memory. Forward: the online softmax of
// Milakov and Gimelshein 2018 over blocks of 32 keys. Backward: scores are recomputed from the logsumexp; dq by rows of
// queries, dk and dv by rows of keys, so that every sum has one owner and one order. The rows of the other side go through
// shared memory, once for all warps. The number in a kernel's name is the widest row of a head that it takes: registers and
// shared memory are for rows as they are.
#include "Reduce.cuh"

struct AttentionShape {
  int batch, sequence, heads, keyHeads, headDim, valueDim, causal, window; // window 0: none
  float scale, softcap;                                                    // softcap 0: none
  const float *slopes, *sinks;                                             // one number a head; null: none

  __device__ int64 queryAt(int b, int s, int head) const { return (((int64)b * sequence + s) * heads + head) * headDim; }
  __device__ int64 keyAt(int b, int s, int head) const { return (((int64)b * sequence + s) * keyHeads + head) * headDim; }
  __device__ int64 valueAt(int b, int s, int head) const { return (((int64)b * sequence + s) * keyHeads + head) * valueDim; }
  __device__ int64 outAt(int b, int s, int head) const { return (((int64)b * sequence + s) * heads + head) * valueDim; }
  __device__ int64 rowAt(int b, int s, int head) const { return ((int64)b * heads + head) * sequence + s; }
  __device__ int keyHeadOf(int head) const { return head / (heads / keyHeads); }

  /// Query s sees keys [firstKey, keyLimit); key s is seen by queries [firstQuery, queryLimit).
  __device__ int firstKey(int s) const { return window > 0 ? max(0, s - window + 1) : 0; }
  __device__ int keyLimit(int s) const { return causal ? s + 1 : sequence; }
  __device__ int firstQuery(int s) const { return causal ? s : 0; }
  __device__ int queryLimit(int s) const { return window > 0 ? min(sequence, s + window) : sequence; }

  /// The score of a product <q, k>; `derivative` becomes d score / d (scale * product).
  __device__ float score(float product, int head, int query, int key, float &derivative) const {
    float value = scale * product;
    derivative = 1.0f;
    if (softcap * fabsf(value) > 0.0f) { // a value of zero stays; of the cap alone the compiler would make two loops
      const float t = tanhf(value / softcap);
      value = softcap * t;
      derivative = 1.0f - t * t;
    }
    return slopes ? value + slopes[head] * (float)(key - query) : value;
  }
};

/// A row of n <= 32 parts numbers spread over the lanes: number lane + 32 i in part i.
template <int parts> struct SpreadRow {
  float part[parts];
  __device__ SpreadRow() {
    for (int i = 0; i < parts; ++i)
      part[i] = 0.0f;
  }
  __device__ void scale(float factor) {
    for (int i = 0; i < parts; ++i)
      part[i] *= factor;
  }
  __device__ void addScaled(const float *row, float factor, int n) {
    for (int i = 0; i < parts; ++i)
      part[i] += factor * row[min(lane() + 32 * i, n - 1)]; // beyond the row anything: it is not stored
  }
  __device__ void store(float *row, float factor, int n) const {
    for (int i = 0; i < parts; ++i)
      if (lane() + 32 * i < n)
        row[lane() + 32 * i] = factor * part[i];
  }
};

const int rowsPerBlock = 8; // one a warp

/// This warp's row: a query, or a key of a head of keys. A grid is blocks of rows x heads x batch.
struct AttentionRow {
  int b, head, first, s; // first: of the block
  bool valid;            // else s is the sequence's last, computed once more and not stored

  __device__ explicit AttentionRow(const AttentionShape &shape)
      : b(blockIdx.z), head(blockIdx.y), first(blockIdx.x * rowsPerBlock), s(first + (int)(threadIdx.x / 32)),
        valid(s < shape.sequence) {
    s = min(s, shape.sequence - 1);
  }
  __device__ int last(const AttentionShape &shape) const { return min(first + rowsPerBlock, shape.sequence) - 1; }
};

/// Up to 32 rows of the other side in shared memory, for all warps. The word beside each row puts the 32 numbers of a column
/// into 32 banks.
template <int parts> struct SharedRows {
  float value[32][32 * parts + 1];

  /// Loads `count` rows of n numbers that are `stride` apart. All threads of the block must call it.
  __device__ void fill(const float *rows, int stride, int count, int n) {
    __syncthreads(); // the rows before may still be in use
#pragma unroll 1
    for (int i = lane(); i < n; i += 32)
      for (int turn = 0; turn < 32 / rowsPerBlock; ++turn) {
        const int row = threadIdx.x / 32 + rowsPerBlock * turn;
        value[row][i] = row < count ? rows[(int64)row * stride + i] : 0.0f;
      }
    __syncthreads();
  }
  /// The product of a row in memory with the row of this lane.
  __device__ float dot(const float *own, int n) const {
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < n; ++i)
      sum += own[i] * value[lane()][i];
    return sum;
  }
  /// sum += the rows, each times its lane's factor; most lanes of a window's edge have 0, and their rows are not read.
  __device__ void addTo(SpreadRow<parts> &sum, float factor, int count, int n) const {
#pragma unroll 1
    for (int j = 0; j < count; ++j)
      if (const float scale = __shfl_sync(0xffffffffu, factor, j); scale != 0.0f)
        sum.addScaled(value[j], scale, n);
  }
};

template <int parts>
__device__ inline void attentionForward(float *out, float *lse, const float *q, const float *k, const float *v,
                                        const AttentionShape &shape) {
  __shared__ SharedRows<parts> rows;
  const AttentionRow row(shape);
  const int keyHead = shape.keyHeadOf(row.head), limit = shape.keyLimit(row.last(shape));
  const float *query = q + shape.queryAt(row.b, row.s, row.head);
  // A sink is one more score that is there from the start and has no value.
  float most = shape.sinks ? shape.sinks[row.head] : negativeInfinity(), mass = shape.sinks ? 1.0f : 0.0f;
  SpreadRow<parts> sum;
  for (int begin = shape.firstKey(row.first); begin < limit; begin += 32) { // the first 32 keys have one that the row sees
    const int key = begin + lane(), count = min(32, limit - begin);
    const bool seen = key >= shape.firstKey(row.s) && key < shape.keyLimit(row.s);
    rows.fill(k + shape.keyAt(row.b, begin, keyHead), shape.keyHeads * shape.headDim, count, shape.headDim);
    float derivative, score = negativeInfinity();
    if (seen)
      score = shape.score(rows.dot(query, shape.headDim), row.head, row.s, key, derivative);
    const float larger = maximum(most, warpReduce<Maximum>(score));
    const float shrink = expf(most - larger), p = seen ? expf(score - larger) : 0.0f;
    mass = mass * shrink + warpReduce<Sum>(p);
    sum.scale(shrink);
    rows.fill(v + shape.valueAt(row.b, begin, keyHead), shape.keyHeads * shape.valueDim, count, shape.valueDim);
    rows.addTo(sum, p, count, shape.valueDim);
    most = larger;
  }
  if (!row.valid)
    return;
  sum.store(out + shape.outAt(row.b, row.s, row.head), 1.0f / mass, shape.valueDim);
  if (lane() == 0)
    lse[shape.rowAt(row.b, row.s, row.head)] = most + logf(mass);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_forward_32(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<1>(out, lse, q, k, v, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_forward_64(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<2>(out, lse, q, k, v, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_forward_128(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<4>(out, lse, q, k, v, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_forward_256(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<8>(out, lse, q, k, v, shape);
}

/// What a query and a key give to the backward: the key's probability, and d loss / d (q . k).
struct PairGradient {
  float p = 0.0f, ds = 0.0f;

  /// From q . k, dout . v and, of the query, the logsumexp and dout . out.
  __device__ void set(const AttentionShape &shape, int head, int query, int key, float product, float dp, float lse,
                      float inner) {
    float derivative;
    p = expf(shape.score(product, head, query, key, derivative) - lse);
    ds = shape.scale * derivative * p * (dp - inner);
  }
};

/// dq and inner[row] = dout . out.
template <int parts>
__device__ inline void attentionBackwardQueries(float *dq, float *inner, const float *q, const float *k, const float *v,
                                                const float *out, const float *lse, const float *dout,
                                                const AttentionShape &shape) {
  __shared__ SharedRows<parts> rows;
  const AttentionRow row(shape);
  const int keyHead = shape.keyHeadOf(row.head), limit = shape.keyLimit(row.last(shape));
  const int64 outAt = shape.outAt(row.b, row.s, row.head), rowAt = shape.rowAt(row.b, row.s, row.head);
  const float *query = q + shape.queryAt(row.b, row.s, row.head);
  float own = 0.0f;
  for (int i = lane(); i < shape.valueDim; i += 32)
    own += dout[outAt + i] * out[outAt + i];
  own = warpReduce<Sum>(own);
  SpreadRow<parts> sum;
  for (int begin = shape.firstKey(row.first); begin < limit; begin += 32) {
    const int key = begin + lane(), count = min(32, limit - begin);
    const bool seen = key >= shape.firstKey(row.s) && key < shape.keyLimit(row.s);
    rows.fill(v + shape.valueAt(row.b, begin, keyHead), shape.keyHeads * shape.valueDim, count, shape.valueDim);
    const float dp = seen ? rows.dot(dout + outAt, shape.valueDim) : 0.0f;
    rows.fill(k + shape.keyAt(row.b, begin, keyHead), shape.keyHeads * shape.headDim, count, shape.headDim);
    PairGradient pair;
    if (seen)
      pair.set(shape, row.head, row.s, key, rows.dot(query, shape.headDim), dp, lse[rowAt], own);
    rows.addTo(sum, pair.ds, count, shape.headDim);
  }
  if (!row.valid)
    return;
  sum.store(dq + shape.queryAt(row.b, row.s, row.head), 1.0f, shape.headDim);
  if (lane() == 0)
    inner[rowAt] = own;
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_queries_32(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out,
                                  const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<1>(dq, inner, q, k, v, out, lse, dout, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_queries_64(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out,
                                  const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<2>(dq, inner, q, k, v, out, lse, dout, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_queries_128(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out,
                                   const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<4>(dq, inner, q, k, v, out, lse, dout, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_queries_256(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out,
                                   const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<8>(dq, inner, q, k, v, out, lse, dout, shape);
}

/// dk and dv; the query heads that read a key come in increasing order.
template <int parts>
__device__ inline void attentionBackwardKeys(float *dk, float *dv, const float *q, const float *k, const float *v,
                                             const float *lse, const float *dout, const float *inner,
                                             const AttentionShape &shape) {
  __shared__ SharedRows<parts> rows;
  const AttentionRow row(shape);
  const int group = shape.heads / shape.keyHeads, limit = shape.queryLimit(row.last(shape));
  const float *key = k + shape.keyAt(row.b, row.s, row.head), *value = v + shape.valueAt(row.b, row.s, row.head);
  SpreadRow<parts> sumK, sumV;
  int head = row.head * group, begin = shape.firstQuery(row.first);
  while (head < (row.head + 1) * group) {
    const int query = begin + lane(), count = min(32, limit - begin);
    const bool seen = query >= shape.firstQuery(row.s) && query < shape.queryLimit(row.s);
    const float *queries = q + shape.queryAt(row.b, begin, head);
    rows.fill(queries, shape.heads * shape.headDim, count, shape.headDim);
    const float product = seen ? rows.dot(key, shape.headDim) : 0.0f;
    rows.fill(dout + shape.outAt(row.b, begin, head), shape.heads * shape.valueDim, count, shape.valueDim);
    PairGradient pair;
    if (seen) {
      const int64 at = shape.rowAt(row.b, query, head);
      pair.set(shape, head, query, row.s, product, rows.dot(value, shape.valueDim), lse[at], inner[at]);
    }
    rows.addTo(sumV, pair.p, count, shape.valueDim);
    rows.fill(queries, shape.heads * shape.headDim, count, shape.headDim);
    rows.addTo(sumK, pair.ds, count, shape.headDim);
    begin += 32;
    if (begin >= limit) { // one loop over heads and blocks of queries: ptxas takes long over nested ones
      begin = shape.firstQuery(row.first);
      ++head;
    }
  }
  if (!row.valid)
    return;
  sumK.store(dk + shape.keyAt(row.b, row.s, row.head), 1.0f, shape.headDim);
  sumV.store(dv + shape.valueAt(row.b, row.s, row.head), 1.0f, shape.valueDim);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_keys_32(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse,
                               const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<1>(dk, dv, q, k, v, lse, dout, inner, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_keys_64(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse,
                               const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<2>(dk, dv, q, k, v, lse, dout, inner, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_keys_128(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse,
                                const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<4>(dk, dv, q, k, v, lse, dout, inner, shape);
}
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_keys_256(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse,
                                const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<8>(dk, dv, q, k, v, lse, dout, inner, shape);
}

/// A sink has no value, so its probability only takes from the others: one head a block, the sum over rows in double.
extern "C" __global__ void attention_backward_sinks(float *dsinks, const float *lse, const float *inner, AttentionShape shape) {
  const int head = blockIdx.x;
  double sum = 0;
  for (uint32 i = threadIdx.x; i < (uint32)shape.batch * shape.sequence; i += blockDim.x) {
    const int64 at = shape.rowAt((int)(i / (uint32)shape.sequence), (int)(i % (uint32)shape.sequence), head);
    sum -= (double)expf(shape.sinks[head] - lse[at]) * inner[at];
  }
  sum = blockReduce<Sum>(sum);
  if (threadIdx.x == 0)
    dsinks[head] = (float)sum;
}
