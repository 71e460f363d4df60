// Attention, one warp a row, no matrix of scores in memory. Forward: the online softmax of Milakov and Gimelshein 2018 over
// blocks of 32 keys. Backward: scores are recomputed from the logsumexp; dq by rows of queries, dk and dv by rows of keys, so
// that every sum has one owner and one order.
#include "Reduce.cuh"

const int headDimLimit = 256, partsLimit = headDimLimit / 32;

struct AttentionShape {
  int batch, sequence, heads, keyHeads, headDim, causal;
  float scale;

  __device__ int64 queryAt(int b, int s, int head) const { return (((int64)b * sequence + s) * heads + head) * headDim; }
  __device__ int64 keyAt(int b, int s, int head) const { return (((int64)b * sequence + s) * keyHeads + head) * headDim; }
  __device__ int64 rowAt(int b, int s, int head) const { return ((int64)b * heads + head) * sequence + s; }
};

__device__ inline float dot(const float *a, const float *b, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// A row of head_dim numbers spread over the lanes: number lane + 32 i in part i.
struct SpreadRow {
  float part[partsLimit];
  __device__ SpreadRow() {
    for (int i = 0; i < partsLimit; ++i)
      part[i] = 0.0f;
  }
  __device__ void scale(float factor) {
    for (int i = 0; i < partsLimit; ++i)
      part[i] *= factor;
  }
  __device__ void addScaled(const float *row, float factor, int n) {
    for (int i = 0; i < partsLimit; ++i)
      if (lane() + 32 * i < n)
        part[i] += factor * row[lane() + 32 * i];
  }
  __device__ void store(float *row, float factor, int n) const {
    for (int i = 0; i < partsLimit; ++i)
      if (lane() + 32 * i < n)
        row[lane() + 32 * i] = factor * part[i];
  }
};

/// The row of a grid with one warp a row, taken apart: row = (b * heads + head) * sequence + s.
struct AttentionRow {
  int b, head, s;
  bool valid;
  __device__ AttentionRow(const AttentionShape &shape, int heads) {
    const int64 row = globalWarp();
    valid = row < (int64)shape.batch * heads * shape.sequence;
    s = (int)(row % shape.sequence);
    head = (int)(row / shape.sequence % heads);
    b = (int)(row / shape.sequence / heads);
  }
};

extern "C" __global__ void attention_forward(float *out, float *lse, const float *q, const float *k, const float *v,
                                             AttentionShape shape) {
  const AttentionRow row(shape, shape.heads);
  if (!row.valid)
    return;
  const int n = shape.headDim, keyHead = row.head / (shape.heads / shape.keyHeads);
  const float *query = q + shape.queryAt(row.b, row.s, row.head);
  const int limit = shape.causal ? row.s + 1 : shape.sequence;
  float most = negativeInfinity(), mass = 0.0f;
  SpreadRow sum;
  for (int begin = 0; begin < limit; begin += 32) {
    const int key = begin + lane();
    const bool seen = key < limit;
    const float score = seen ? shape.scale * dot(query, k + shape.keyAt(row.b, key, keyHead), n) : negativeInfinity();
    const float larger = maximum(most, warpReduce<Maximum>(score));
    const float shrink = expf(most - larger), p = seen ? expf(score - larger) : 0.0f;
    mass = mass * shrink + warpReduce<Sum>(p);
    sum.scale(shrink);
    for (int j = 0; j < min(32, limit - begin); ++j)
      sum.addScaled(v + shape.keyAt(row.b, begin + j, keyHead), __shfl_sync(0xffffffffu, p, j), n);
    most = larger;
  }
  sum.store(out + shape.queryAt(row.b, row.s, row.head), 1.0f / mass, n);
  if (lane() == 0)
    lse[shape.rowAt(row.b, row.s, row.head)] = most + logf(mass);
}

/// dq and inner[row] = dout . out, one query a warp.
extern "C" __global__ void attention_backward_queries(float *dq, float *inner, const float *q, const float *k, const float *v,
                                                      const float *out, const float *lse, const float *dout,
                                                      AttentionShape shape) {
  const AttentionRow row(shape, shape.heads);
  if (!row.valid)
    return;
  const int n = shape.headDim, keyHead = row.head / (shape.heads / shape.keyHeads);
  const int64 at = shape.queryAt(row.b, row.s, row.head), rowAt = shape.rowAt(row.b, row.s, row.head);
  float own = 0.0f;
  for (int i = lane(); i < n; i += 32)
    own += dout[at + i] * out[at + i];
  own = warpReduce<Sum>(own);
  const int limit = shape.causal ? row.s + 1 : shape.sequence;
  SpreadRow sum;
  for (int begin = 0; begin < limit; begin += 32) {
    const int key = begin + lane();
    float ds = 0.0f;
    if (key < limit) {
      const int64 keyAt = shape.keyAt(row.b, key, keyHead);
      const float p = expf(shape.scale * dot(q + at, k + keyAt, n) - lse[rowAt]);
      ds = shape.scale * p * (dot(dout + at, v + keyAt, n) - own);
    }
    for (int j = 0; j < min(32, limit - begin); ++j)
      sum.addScaled(k + shape.keyAt(row.b, begin + j, keyHead), __shfl_sync(0xffffffffu, ds, j), n);
  }
  sum.store(dq + at, 1.0f, n);
  if (lane() == 0)
    inner[rowAt] = own;
}

/// dk and dv, one key a warp; the query heads that read it come in increasing order.
extern "C" __global__ void attention_backward_keys(float *dk, float *dv, const float *q, const float *k, const float *v,
                                                   const float *lse, const float *dout, const float *inner,
                                                   AttentionShape shape) {
  const AttentionRow row(shape, shape.keyHeads);
  if (!row.valid)
    return;
  const int n = shape.headDim, group = shape.heads / shape.keyHeads;
  const int64 keyAt = shape.keyAt(row.b, row.s, row.head);
  SpreadRow sumK, sumV;
  for (int head = row.head * group; head < (row.head + 1) * group; ++head)
    for (int begin = shape.causal ? row.s : 0; begin < shape.sequence; begin += 32) {
      const int query = begin + lane();
      float p = 0.0f, ds = 0.0f;
      if (query < shape.sequence) {
        const int64 at = shape.queryAt(row.b, query, head), rowAt = shape.rowAt(row.b, query, head);
        p = expf(shape.scale * dot(q + at, k + keyAt, n) - lse[rowAt]);
        ds = shape.scale * p * (dot(dout + at, v + keyAt, n) - inner[rowAt]);
      }
      for (int j = 0; j < min(32, shape.sequence - begin); ++j) {
        const int64 at = shape.queryAt(row.b, begin + j, head);
        sumV.addScaled(dout + at, __shfl_sync(0xffffffffu, p, j), n);
        sumK.addScaled(q + at, __shfl_sync(0xffffffffu, ds, j), n);
      }
    }
  sumK.store(dk + keyAt, 1.0f, n);
  sumV.store(dv + keyAt, 1.0f, n);
}

/// Rotary positions, half-split; the tables hold cosine and sine of [sequence, headDim / 2].
extern "C" __global__ void rope(float *y, const float *x, const float *cosine, const float *sine, int64 pairs, int sequence,
                                int heads, int headDim, float direction) {
  const int half = headDim / 2;
  for (int64 index = globalThread(); index < pairs; index += globalThreads()) {
    const int i = (int)(index % half);
    const int64 row = index / half; // token * heads + head
    const int s = (int)(row / heads % sequence);
    const float c = cosine[s * half + i], t = direction * sine[s * half + i];
    const int64 at = row * headDim + i;
    const float a = x[at], b = x[at + half];
    y[at] = a * c - b * t;
    y[at + half] = b * c + a * t;
  }
}
