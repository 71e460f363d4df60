// Attention, one warp a row, no matrix of scores in memory. Forward: the online softmax of Milakov and Gimelshein 2018 over
// blocks of 32 keys. Backward: scores are recomputed from the logsumexp; dq by rows of queries, dk and dv by rows of keys, so
// that every sum has one owner and one order. The number in a kernel's name is the widest row of a head that it takes: registers
// are for rows as they are.
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

__device__ inline float dot(const float *a, const float *b, int n) {
  float sum = 0.0f;
#pragma unroll 4
  for (int i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

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

/// The row of a grid with one warp a row, taken apart: row = (b * heads + head) * sequence + s.
struct AttentionRow {
  int b, head, s;
  bool valid;
  __device__ AttentionRow(const AttentionShape &shape, int heads) {
    const uint32 row = globalWarp(), line = row / (uint32)shape.sequence; // fewer than 2^31
    valid = row < (uint32)shape.batch * heads * shape.sequence;
    s = (int)(row % (uint32)shape.sequence);
    head = (int)(line % (uint32)heads);
    b = (int)(line / (uint32)heads);
  }
};

struct ForwardRow {
  const AttentionShape &shape;
  AttentionRow row;
  float *out, *lse;
  const float *q, *k, *v;

  template <int parts> __device__ void run() const {
    const int keyHead = shape.keyHeadOf(row.head), limit = shape.keyLimit(row.s);
    const float *query = q + shape.queryAt(row.b, row.s, row.head);
    // A sink is one more score that is there from the start and has no value.
    float most = shape.sinks ? shape.sinks[row.head] : negativeInfinity(), mass = shape.sinks ? 1.0f : 0.0f;
    SpreadRow<parts> sum;
    for (int begin = shape.firstKey(row.s); begin < limit; begin += 32) {
      const int key = begin + lane();
      const bool seen = key < limit;
      float derivative, score = negativeInfinity();
      if (seen)
        score = shape.score(dot(query, k + shape.keyAt(row.b, key, keyHead), shape.headDim), row.head, row.s, key, derivative);
      const float larger = maximum(most, warpReduce<Maximum>(score));
      const float shrink = expf(most - larger), p = seen ? expf(score - larger) : 0.0f;
      mass = mass * shrink + warpReduce<Sum>(p);
      sum.scale(shrink);
#pragma unroll 1
      for (int j = 0; j < min(32, limit - begin); ++j)
        sum.addScaled(v + shape.valueAt(row.b, begin + j, keyHead), __shfl_sync(0xffffffffu, p, j), shape.valueDim);
      most = larger;
    }
    sum.store(out + shape.outAt(row.b, row.s, row.head), 1.0f / mass, shape.valueDim);
    if (lane() == 0)
      lse[shape.rowAt(row.b, row.s, row.head)] = most + logf(mass);
  }
};

template <int parts>
__device__ inline void attentionForward(float *out, float *lse, const float *q, const float *k, const float *v,
                                        const AttentionShape &shape) {
  const AttentionRow row(shape, shape.heads);
  if (row.valid)
    ForwardRow{shape, row, out, lse, q, k, v}.run<parts>();
}
extern "C" __global__ void attention_forward_32(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<1>(out, lse, q, k, v, shape);
}
extern "C" __global__ void attention_forward_64(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<2>(out, lse, q, k, v, shape);
}
extern "C" __global__ void attention_forward_128(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<4>(out, lse, q, k, v, shape);
}
extern "C" __global__ void attention_forward_256(float *out, float *lse, const float *q, const float *k, const float *v, AttentionShape shape) {
  attentionForward<8>(out, lse, q, k, v, shape);
}

/// What both halves of the backward read.
struct BackwardOperands {
  const AttentionShape &shape;
  AttentionRow row;
  const float *q, *k, *v, *lse, *dout;

  /// d loss / d (q . k) of a query and a key that it sees, and the key's probability p; `inner` is dout . out of the query.
  __device__ float adjoint(int head, int query, int key, float inner, float &p) const {
    const int keyHead = shape.keyHeadOf(head), n = shape.headDim;
    float derivative;
    const float product = dot(q + shape.queryAt(row.b, query, head), k + shape.keyAt(row.b, key, keyHead), n);
    p = expf(shape.score(product, head, query, key, derivative) - lse[shape.rowAt(row.b, query, head)]);
    const float dp = dot(dout + shape.outAt(row.b, query, head), v + shape.valueAt(row.b, key, keyHead), shape.valueDim);
    return shape.scale * derivative * p * (dp - inner);
  }
};

struct BackwardQueryRow {
  BackwardOperands operands;
  float *dq, *inner;
  const float *out;

  template <int parts> __device__ void run() const {
    const AttentionShape &shape = operands.shape;
    const AttentionRow &row = operands.row;
    const int64 outAt = shape.outAt(row.b, row.s, row.head);
    float own = 0.0f;
    for (int i = lane(); i < shape.valueDim; i += 32)
      own += operands.dout[outAt + i] * out[outAt + i];
    own = warpReduce<Sum>(own);
    const int limit = shape.keyLimit(row.s);
    SpreadRow<parts> sum;
    for (int begin = shape.firstKey(row.s); begin < limit; begin += 32) {
      const int key = begin + lane();
      float p, ds = 0.0f;
      if (key < limit)
        ds = operands.adjoint(row.head, row.s, key, own, p);
#pragma unroll 1
      for (int j = 0; j < min(32, limit - begin); ++j)
        sum.addScaled(operands.k + shape.keyAt(row.b, begin + j, shape.keyHeadOf(row.head)),
                      __shfl_sync(0xffffffffu, ds, j), shape.headDim);
    }
    sum.store(dq + shape.queryAt(row.b, row.s, row.head), 1.0f, shape.headDim);
    if (lane() == 0)
      inner[shape.rowAt(row.b, row.s, row.head)] = own;
  }
};

/// dq and inner[row] = dout . out, one query a warp.
template <int parts>
__device__ inline void attentionBackwardQueries(float *dq, float *inner, const float *q, const float *k, const float *v,
                                                const float *out, const float *lse, const float *dout,
                                                const AttentionShape &shape) {
  const AttentionRow row(shape, shape.heads);
  if (row.valid)
    BackwardQueryRow{{shape, row, q, k, v, lse, dout}, dq, inner, out}.run<parts>();
}
extern "C" __global__ void attention_backward_queries_32(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<1>(dq, inner, q, k, v, out, lse, dout, shape);
}
extern "C" __global__ void attention_backward_queries_64(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<2>(dq, inner, q, k, v, out, lse, dout, shape);
}
extern "C" __global__ void attention_backward_queries_128(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<4>(dq, inner, q, k, v, out, lse, dout, shape);
}
extern "C" __global__ void attention_backward_queries_256(float *dq, float *inner, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, AttentionShape shape) {
  attentionBackwardQueries<8>(dq, inner, q, k, v, out, lse, dout, shape);
}

struct BackwardKeyRow {
  BackwardOperands operands;
  float *dk, *dv;
  const float *inner;

  template <int parts> __device__ void run() const {
    const AttentionShape &shape = operands.shape;
    const AttentionRow &row = operands.row;
    const int group = shape.heads / shape.keyHeads, limit = shape.queryLimit(row.s);
    SpreadRow<parts> sumK, sumV;
    int head = row.head * group, begin = shape.firstQuery(row.s);
    while (head < (row.head + 1) * group) {
      const int query = begin + lane();
      float p = 0.0f, ds = 0.0f;
      if (query < limit)
        ds = operands.adjoint(head, query, row.s, inner[shape.rowAt(row.b, query, head)], p);
#pragma unroll 1
      for (int j = 0; j < min(32, limit - begin); ++j) {
        sumV.addScaled(operands.dout + shape.outAt(row.b, begin + j, head), __shfl_sync(0xffffffffu, p, j), shape.valueDim);
        sumK.addScaled(operands.q + shape.queryAt(row.b, begin + j, head), __shfl_sync(0xffffffffu, ds, j), shape.headDim);
      }
      begin += 32;
      if (begin >= limit) { // one loop over heads and blocks of queries: ptxas takes long over nested ones
        begin = shape.firstQuery(row.s);
        ++head;
      }
    }
    sumK.store(dk + shape.keyAt(row.b, row.s, row.head), 1.0f, shape.headDim);
    sumV.store(dv + shape.valueAt(row.b, row.s, row.head), 1.0f, shape.valueDim);
  }
};

/// dk and dv, one key a warp; the query heads that read it come in increasing order.
template <int parts>
__device__ inline void attentionBackwardKeys(float *dk, float *dv, const float *q, const float *k, const float *v,
                                             const float *lse, const float *dout, const float *inner,
                                             const AttentionShape &shape) {
  const AttentionRow row(shape, shape.keyHeads);
  if (row.valid)
    BackwardKeyRow{{shape, row, q, k, v, lse, dout}, dk, dv, inner}.run<parts>();
}
extern "C" __global__ void attention_backward_keys_32(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse, const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<1>(dk, dv, q, k, v, lse, dout, inner, shape);
}
extern "C" __global__ void attention_backward_keys_64(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse, const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<2>(dk, dv, q, k, v, lse, dout, inner, shape);
}
extern "C" __global__ void attention_backward_keys_128(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse, const float *dout, const float *inner, AttentionShape shape) {
  attentionBackwardKeys<4>(dk, dv, q, k, v, lse, dout, inner, shape);
}
extern "C" __global__ void attention_backward_keys_256(float *dk, float *dv, const float *q, const float *k, const float *v, const float *lse, const float *dout, const float *inner, AttentionShape shape) {
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
