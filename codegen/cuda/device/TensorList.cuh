// One launch over many tensors, which come by value. The host's side is runtime/device/cuda/TensorList.h.
#pragma once
#include "Types.cuh"

/// Up to 64 tensors; the blocks of a grid belong to them in their order. An entry has `endBlock`: the first block that is not its
/// own.
template <typename Entry> struct TensorList {
  int size;
  Entry entry[64];

  /// Which tensor this block belongs to.
  __device__ int find() const {
    int own = 0;
#pragma unroll 1
    while ((int)blockIdx.x >= entry[own].endBlock)
      ++own;
    return own;
  }
  /// This block's number among those of its tensor.
  __device__ int64 blockOf(int own) const { return (int)blockIdx.x - (own > 0 ? entry[own - 1].endBlock : 0); }
};
