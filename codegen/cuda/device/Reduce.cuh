// Reductions over a warp and over a block in a fixed order, so that equal inputs give equal bits.
#pragma once
#include "Types.cuh"

struct Sum {
  template <typename T> __device__ static T combine(T a, T b) { return a + b; }
  template <typename T> __device__ static T identity() { return T(0); }
};
struct Maximum {
  template <typename T> __device__ static T combine(T a, T b) { return maximum(a, b); }
  template <typename T> __device__ static T identity() { return negativeInfinity(); }
};

/// The reduction over all 32 lanes, in every lane.
template <typename Operation, typename T> __device__ inline T warpReduce(T value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = Operation::combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/// The reduction over all threads of a block of whole warps, in every thread. All threads must call it.
template <typename Operation, typename T> __device__ inline T blockReduce(T value) {
  __shared__ T parts[32];
  value = warpReduce<Operation>(value);
  __syncthreads(); // an earlier call may still be reading
  if (lane() == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  return warpReduce<Operation>(lane() < blockDim.x / 32 ? parts[lane()] : Operation::template identity<T>());
}
