// Routing: selection, the grouping of rows by expert, its adjoint, and rows moved between the two orders.
#include "Reduce.cuh"
#include "Routing.cuh"

/// Whether logit a (of expert i) is chosen before logit b (of expert j): larger first, ties to the lower index, NaN last.
__device__ inline bool precedes(float a, int i, float b, int j) {
  if (isNan(a) != isNan(b))
    return isNan(b);
  if (!isNan(a) && a != b)
    return a > b;
  return i < j;
}

/// How experts are chosen.
struct Selection {
  int groups, kept, sumOfBestTwo, comparesProbabilities;
  const float *bias; // null: none
};

/// What is compared of one token: its logits, or its probabilities plus the bias.
struct Keys {
  const float *values, *bias;
  __device__ float operator()(int expert) const { return bias ? values[expert] + bias[expert] : values[expert]; }
};

/// Puts expert into the sorted list of the `limit` best, of which `filled` are there.
__device__ inline void insertExpert(const Keys &key, int expert, int limit, int &filled, int *ids) {
  if (filled == limit && !precedes(key(expert), expert, key(ids[limit - 1]), ids[limit - 1]))
    return;
  int place = filled < limit ? filled++ : limit - 1;
#pragma unroll 1
  for (; place > 0 && precedes(key(expert), expert, key(ids[place - 1]), ids[place - 1]); --place)
    ids[place] = ids[place - 1];
  ids[place] = expert;
}

/// The best key of group `group`, or the sum of its two best.
__device__ inline float groupScore(const Keys &key, int group, int size, int sumOfBestTwo) {
  int first = group * size, second = -1;
#pragma unroll 1
  for (int expert = first + 1; expert < (group + 1) * size; ++expert) {
    if (precedes(key(expert), expert, key(first), first)) {
      second = first;
      first = expert;
    } else if (second < 0 || precedes(key(expert), expert, key(second), second)) {
      second = expert;
    }
  }
  return sumOfBestTwo ? key(first) + key(second) : key(first);
}

/// Whether the group is among the `kept` first of all.
__device__ inline bool keepsGroup(const float *scores, int group, int groups, int kept) {
  int before = 0;
#pragma unroll 1
  for (int other = 0; other < groups; ++other)
    before += other != group && precedes(scores[other], other, scores[group], group);
  return before < kept;
}

/// One token a thread: ids, gates and probabilities. `groupScores` has room for tokens x groups numbers.
extern "C" __global__ void route_tokens(const float *logits, Routing routing, float *gates, float *probs, int sigmoidScore,
                                        int renormalize, float epsilon, float scale, Selection selection,
                                        float *groupScores) {
  const int64 token = globalThread();
  if (token >= routing.tokens)
    return;
  const int experts = routing.experts, topK = routing.topK;
  const float *row = logits + token * experts;
  float *p = probs + token * experts;
  if (sigmoidScore) {
#pragma unroll 2
    for (int expert = 0; expert < experts; ++expert)
      p[expert] = sigmoid(row[expert]);
  } else {
    float most = negativeInfinity(), mass = 0.0f;
#pragma unroll 2
    for (int expert = 0; expert < experts; ++expert)
      most = maximum(most, row[expert]);
#pragma unroll 2
    for (int expert = 0; expert < experts; ++expert)
      mass += p[expert] = expf(row[expert] - most);
#pragma unroll 2
    for (int expert = 0; expert < experts; ++expert)
      p[expert] /= mass;
  }
  const Keys key{selection.comparesProbabilities ? p : row, selection.bias};
  const int groups = selection.groups, size = experts / groups;
  float *scores = groupScores + token * groups;
#pragma unroll 1
  for (int group = 0; groups > 1 && group < groups; ++group)
    scores[group] = groupScore(key, group, size, selection.sumOfBestTwo);
  int *ids = routing.ids() + token * topK;
  int filled = 0;
  bool keeps = true; // the group of the expert
#pragma unroll 1 // the list is in memory: one insertion waits for the other
  for (int expert = 0, left = 0; expert < groups * size; ++expert, --left) {
    if (groups > 1 && left == 0) {
      keeps = keepsGroup(scores, expert / size, groups, selection.kept);
      left = size;
    }
    if (keeps)
      insertExpert(key, expert, topK, filled, ids);
  }
  float sum = epsilon;
#pragma unroll 1
  for (int j = 0; j < topK; ++j)
    sum += p[ids[j]];
  const float factor = renormalize ? scale / sum : scale;
#pragma unroll 1
  for (int j = 0; j < topK; ++j)
    gates[token * topK + j] = p[ids[j]] * factor;
}

/// offsets[e + 1] = number of e's rows; one expert a block.
extern "C" __global__ void route_count(Routing routing) {
  const int expert = blockIdx.x;
  int count = 0;
  for (int slot = threadIdx.x; slot < routing.rows(); slot += blockDim.x)
    count += routing.ids()[slot] == expert;
  count = blockReduce<Sum>(count);
  if (threadIdx.x == 0)
    routing.offsets()[expert + 1] = count;
}

/// The counts become first rows.
extern "C" __global__ void route_offsets(Routing routing) {
  if (globalThread() != 0)
    return;
  int *offsets = routing.offsets();
  offsets[0] = 0;
  for (int expert = 0; expert < routing.experts; ++expert)
    offsets[expert + 1] += offsets[expert];
}

/// Rows of one expert a block, in increasing slot order: ranks by a prefix sum over the block.
extern "C" __global__ void __launch_bounds__(256) route_place(Routing routing) {
  __shared__ int warps[8];
  const int expert = blockIdx.x, warp = threadIdx.x / 32;
  int next = routing.offsets()[expert];
  for (int first = 0; first < routing.rows(); first += blockDim.x) {
    const int slot = first + threadIdx.x;
    const bool mine = slot < routing.rows() && routing.ids()[slot] == expert;
    const unsigned ballot = __ballot_sync(0xffffffffu, mine);
    if (lane() == 0)
      warps[warp] = __popc(ballot);
    __syncthreads();
    int before = 0, all = 0;
    for (int i = 0; i < (int)blockDim.x / 32; ++i) {
      before += i < warp ? warps[i] : 0;
      all += warps[i];
    }
    if (mine) {
      const int row = next + before + __popc(ballot & ((1u << lane()) - 1));
      routing.slotRow()[slot] = row;
      routing.rowSlot()[row] = slot;
    }
    next += all;
    __syncthreads(); // the next round overwrites the warps' counts
  }
}

/// Adjoint of gates and probabilities, one token a thread; ids are constants.
extern "C" __global__ void route_gradient(float *dlogits, const float *probs, Routing routing, const float *dgates,
                                          const float *dprobs, int sigmoidScore, int renormalize, float epsilon,
                                          float scale) {
  const int64 token = globalThread();
  if (token >= routing.tokens)
    return;
  const int experts = routing.experts, topK = routing.topK;
  const float *p = probs + token * experts, *dgate = dgates + token * topK;
  const int *ids = routing.ids() + token * topK;
  float *dx = dlogits + token * experts;
  for (int expert = 0; expert < experts; ++expert)
    dx[expert] = dprobs[token * experts + expert];
  double sum = epsilon, weighted = 0;
#pragma unroll 1 // top-k is small
  for (int j = 0; j < topK; ++j) {
    sum += p[ids[j]];
    weighted += (double)dgate[j] * p[ids[j]];
  }
  const double factor = renormalize ? scale / sum : scale, mean = renormalize ? weighted / sum : 0.0;
#pragma unroll 1
  for (int j = 0; j < topK; ++j)
    dx[ids[j]] += (float)(factor * (dgate[j] - mean));
  double inner = 0;
  for (int expert = 0; expert < experts; ++expert)
    inner += (double)p[expert] * dx[expert];
  for (int expert = 0; expert < experts; ++expert)
    dx[expert] = sigmoidScore ? dx[expert] * p[expert] * (1.0f - p[expert]) : p[expert] * (float)(dx[expert] - inner);
}

/// Row r of the result is x of r's token (times its gate), one row a warp.
extern "C" __global__ void dispatch(float *rows, const float *x, Routing routing, const float *gates, int width) {
  for (uint32 row = globalWarp(); row < (uint32)routing.rows(); row += globalWarps()) {
    const int slot = routing.rowSlot()[row];
    const float gate = gates ? gates[slot] : 1.0f, *source = x + (int64)routing.tokenOfSlot(slot) * width;
    for (int column = lane(); column < width; column += 32)
      rows[(int64)row * width + column] = gate * source[column];
  }
}

/// out[t] = sum over slots in slot order of (gate) rows[row of slot], one token a warp.
extern "C" __global__ void combine(float *out, const float *rows, Routing routing, const float *gates, int width) {
  for (uint32 token = globalWarp(); token < (uint32)routing.tokens; token += globalWarps())
    for (int column = lane(); column < width; column += 32) {
      float sum = 0.0f;
#pragma unroll 2 // top-k is small
      for (int j = 0; j < routing.topK; ++j) {
        const int slot = (int)token * routing.topK + j;
        const float value = rows[(int64)routing.slotRow()[slot] * width + column];
        sum += gates ? gates[slot] * value : value;
      }
      out[(int64)token * width + column] = sum;
    }
}

/// dgates[slot] = dout[token] . rows[row of slot], one slot a warp.
extern "C" __global__ void combine_gate_gradient(float *dgates, const float *dout, const float *rows, Routing routing,
                                                 int width) {
  const int slot = (int)globalWarp();
  if (slot >= routing.rows())
    return;
  const float *a = dout + (int64)routing.tokenOfSlot(slot) * width, *b = rows + (int64)routing.slotRow()[slot] * width;
  float sum = 0.0f;
  for (int i = lane(); i < width; i += 32)
    sum += a[i] * b[i];
  sum = warpReduce<Sum>(sum);
  if (lane() == 0)
    dgates[slot] = sum;
}
