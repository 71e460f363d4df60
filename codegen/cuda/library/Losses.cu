// Cross-entropy and the routers' losses. Sums over tokens are in double and in a fixed order.
#include "Reduce.cuh"
#include "Routing.cuh"

/// One token a block: its loss (0 if ignored), and its logits' gradient times *g where `gradient` is given (it may be the
/// logits' own memory). A target outside the vocabulary raises *damage.
extern "C" __global__ void cross_entropy_rows(float *losses, const float *logits, const int *targets, float *gradient,
                                              const float *g, int vocabulary, int ignored, int *damage) {
  const int64 token = blockIdx.x;
  const float *row = logits + token * vocabulary;
  const int target = targets[token];
  const bool counted = target != ignored, valid = target >= 0 && target < vocabulary;
  float most = negativeInfinity();
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x)
    most = maximum(most, row[i]);
  most = blockReduce<Maximum>(most);
  float mass = 0.0f;
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x)
    mass += expf(row[i] - most);
  const float logMass = most + logf(blockReduce<Sum>(mass));
  const float loss = counted && valid ? logMass - row[target] : 0.0f;
  if (threadIdx.x == 0) {
    losses[token] = loss;
    if (counted && !valid)
      *damage = 1;
  }
  if (!gradient)
    return;
  __syncthreads(); // the target's logit has been read
  // A loss that is not finite has a gradient of NaN, so that the update which reads it changes nothing.
  const float factor = loss - loss != 0.0f ? loss - loss : counted && valid ? *g : 0.0f;
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x)
    gradient[token * vocabulary + i] = factor * (expf(row[i] - logMass) - (i == target ? 1.0f : 0.0f));
}

/// *sum = the sum of `count` values; one block.
extern "C" __global__ void sum_values(float *sum, const float *values, int64 count) {
  double total = 0;
  for (int64 i = threadIdx.x; i < count; i += blockDim.x)
    total += values[i];
  total = blockReduce<Sum>(total);
  if (threadIdx.x == 0)
    *sum = (float)total;
}

/// *count = the number of targets that are not ignored; one block.
extern "C" __global__ void count_targets(float *count, const int *targets, int tokens, int ignored) {
  int total = 0;
  for (int i = threadIdx.x; i < tokens; i += blockDim.x)
    total += targets[i] != ignored;
  total = blockReduce<Sum>(total);
  if (threadIdx.x == 0)
    *count = (float)total;
}

__device__ inline double rowMass(const float *row, int experts) {
  double mass = 0;
#pragma unroll 2
  for (int expert = 0; expert < experts; ++expert)
    mass += row[expert];
  return mass;
}

__device__ inline float logSumExp(const float *row, int experts) {
  float most = negativeInfinity(), mass = 0.0f;
#pragma unroll 2
  for (int expert = 0; expert < experts; ++expert)
    most = maximum(most, row[expert]);
#pragma unroll 2
  for (int expert = 0; expert < experts; ++expert)
    mass += expf(row[expert] - most);
  return most + logf(mass);
}

/// sums[0] counted tokens, sums[1 .. E] assignments, sums[1 + E ..] probabilities (normalised if asked); block b makes
/// sums[b].
extern "C" __global__ void balance_sums(double *sums, const float *probs, Routing routing, const int *targets, int normalize,
                                        int ignored) {
  const int experts = routing.experts, which = (int)blockIdx.x - 1;
  double total = 0;
#pragma unroll 1
  for (int token = threadIdx.x; token < routing.tokens; token += blockDim.x) {
    if (targets[token] == ignored)
      continue;
    if (which < 0) {
      total += 1;
    } else if (which < experts) {
#pragma unroll 1 // top-k is small
      for (int j = 0; j < routing.topK; ++j)
        total += routing.ids()[token * routing.topK + j] == which;
    } else {
      const float *row = probs + (int64)token * experts;
      total += row[which - experts] * (normalize ? 1.0 / rowMass(row, experts) : 1.0);
    }
  }
  total = blockReduce<Sum>(total);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = total;
}

/// E sum_i f_i P_i from balance_sums.
extern "C" __global__ void switch_balance(float *loss, const double *sums, Routing routing) {
  if (globalThread() != 0)
    return;
  const int experts = routing.experts;
  double value = 0;
  for (int expert = 0; expert < experts; ++expert)
    value += sums[1 + expert] * sums[1 + experts + expert];
  const double n = sums[0];
  *loss = n > 0 ? (float)(experts * value / (n * n * routing.topK)) : 0.0f;
}

/// d loss / d probabilities with f constant, times *g; one token a thread.
extern "C" __global__ void switch_balance_gradient(float *dprobs, const float *probs, const double *sums, Routing routing,
                                                   const int *targets, const float *g, int normalize, int ignored) {
  const int64 token = globalThread();
  if (token >= routing.tokens)
    return;
  const int experts = routing.experts;
  const float *row = probs + token * experts;
  const double n = sums[0], factor = n > 0 ? *g * (double)experts / (n * n * routing.topK) : 0.0;
  const bool counted = targets[token] != ignored;
  double scale = 1, inner = 0;
  if (normalize && counted) {
    scale = 1.0 / rowMass(row, experts);
    for (int expert = 0; expert < experts; ++expert)
      inner += sums[1 + expert] * (row[expert] * scale);
  }
  for (int expert = 0; expert < experts; ++expert)
    dprobs[token * experts + expert] = counted ? (float)(factor * scale * (sums[1 + expert] - inner)) : 0.0f;
}

/// sums[0] counted tokens, sums[1] their logsumexp squared; the mean to *loss where it is given. One block.
extern "C" __global__ void router_z(float *loss, double *sums, const float *logits, const int *targets, int tokens,
                                    int experts, int ignored) {
  double count = 0, squares = 0;
  for (int token = threadIdx.x; token < tokens; token += blockDim.x) {
    if (targets[token] == ignored)
      continue;
    const double z = logSumExp(logits + (int64)token * experts, experts);
    count += 1;
    squares += z * z;
  }
  count = blockReduce<Sum>(count);
  squares = blockReduce<Sum>(squares);
  if (threadIdx.x != 0)
    return;
  sums[0] = count;
  sums[1] = squares;
  if (loss)
    *loss = count > 0 ? (float)(squares / count) : 0.0f;
}

extern "C" __global__ void router_z_gradient(float *dlogits, const double *sums, const float *logits, const int *targets,
                                             const float *g, int tokens, int experts, int ignored) {
  const int64 token = globalThread();
  if (token >= tokens)
    return;
  const float *row = logits + token * experts;
  const bool counted = targets[token] != ignored;
  const float z = counted ? logSumExp(row, experts) : 0.0f;
  const float factor = counted ? (float)(*g * 2.0 * z / sums[0]) : 0.0f;
  for (int expert = 0; expert < experts; ++expert)
    dlogits[token * experts + expert] = counted ? factor * expf(row[expert] - z) : 0.0f;
}

/// Block b makes statistics[b]: assignments of expert b, then entropy, logsumexp, largest probability, counted tokens.
extern "C" __global__ void routing_statistics(float *statistics, const float *logits, const float *probs, Routing routing,
                                              const int *targets, int ignored) {
  const int experts = routing.experts, which = blockIdx.x;
  double total = 0;
#pragma unroll 1
  for (int token = threadIdx.x; token < routing.tokens; token += blockDim.x) {
    if (targets[token] == ignored)
      continue;
    const float *p = probs + (int64)token * experts;
    if (which < experts) {
#pragma unroll 1 // top-k is small
      for (int j = 0; j < routing.topK; ++j)
        total += routing.ids()[token * routing.topK + j] == which;
    } else if (which == experts) {
      const double scale = 1.0 / rowMass(p, experts);
#pragma unroll 1 // one copy of the logarithm
      for (int expert = 0; expert < experts; ++expert)
        if (const double share = p[expert] * scale; share > 0)
          total -= share * log(share);
    } else if (which == experts + 1) {
      total += logSumExp(logits + (int64)token * experts, experts);
    } else if (which == experts + 2) {
      float most = negativeInfinity();
#pragma unroll 2
      for (int expert = 0; expert < experts; ++expert)
        most = maximum(most, p[expert]);
      total += most;
    } else {
      total += 1;
    }
  }
  total = blockReduce<Sum>(total);
  if (threadIdx.x == 0)
    statistics[which] = (float)total;
}
