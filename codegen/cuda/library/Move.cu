// Commands that move values: copies with strides, lookups and their adjoint.
#include "Types.cuh"

/// y[i...] = x[start + sum of i_k stride_k]: transpose, slice, concat and copy.
struct StridedCopy {
  int rank;
  int64 start, startY;
  int64 size[8], strideX[8], strideY[8];
};

template <typename Element> __device__ inline void stridedCopy(Element *y, const Element *x, const StridedCopy &shape, int64 count) {
  for (int64 index = globalThread(); index < count; index += globalThreads()) {
    int64 rest = index, from = shape.start, to = shape.startY;
    for (int i = shape.rank - 1; i >= 0; --i) {
      const int64 position = rest % shape.size[i];
      rest /= shape.size[i];
      from += position * shape.strideX[i];
      to += position * shape.strideY[i];
    }
    y[to] = x[from];
  }
}

extern "C" __global__ void strided_copy_1(unsigned char *y, const unsigned char *x, StridedCopy shape, int64 count) {
  stridedCopy(y, x, shape, count);
}
extern "C" __global__ void strided_copy_2(unsigned short *y, const unsigned short *x, StridedCopy shape, int64 count) {
  stridedCopy(y, x, shape, count);
}
extern "C" __global__ void strided_copy_4(uint32 *y, const uint32 *x, StridedCopy shape, int64 count) {
  stridedCopy(y, x, shape, count);
}
extern "C" __global__ void strided_copy_8(uint64 *y, const uint64 *x, StridedCopy shape, int64 count) {
  stridedCopy(y, x, shape, count);
}

/// Fills with a pattern of 4 or 8 bytes.
extern "C" __global__ void fill_4(uint32 *y, uint32 pattern, int64 count) {
  for (int64 i = globalThread(); i < count; i += globalThreads())
    y[i] = pattern;
}
extern "C" __global__ void fill_8(uint64 *y, uint64 pattern, int64 count) {
  for (int64 i = globalThread(); i < count; i += globalThreads())
    y[i] = pattern;
}

/// y[i] = table[ids[i]]; an id outside the table gives zeros and raises *damage.
extern "C" __global__ void lookup(uint32 *y, const int *ids, const uint32 *table, int64 count, int rows, int width, int *damage) {
  for (int64 index = globalThread(); index < count; index += globalThreads()) {
    const int id = ids[index / width];
    const bool valid = id >= 0 && id < rows;
    y[index] = valid ? table[(int64)id * width + index % width] : 0u;
    if (!valid)
      *damage = 1;
  }
}

/// dtable[ids[i]] += dy[i] in increasing i: the block of an id's first use owns its row. One use a block.
extern "C" __global__ void lookup_gradient(float *dtable, const int *ids, const float *dy, int uses, int rows, int width,
                                           int *damage) {
  const int use = blockIdx.x, id = ids[use];
  if (id < 0 || id >= rows) {
    if (threadIdx.x == 0)
      *damage = 1;
    return;
  }
  __shared__ int earlier;
  if (threadIdx.x == 0)
    earlier = 0;
  __syncthreads();
  for (int other = threadIdx.x; other < use; other += blockDim.x)
    if (ids[other] == id)
      atomicOr(&earlier, 1);
  __syncthreads();
  if (earlier)
    return;
  for (int column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = dtable[(int64)id * width + column];
    for (int other = use; other < uses; ++other)
      if (ids[other] == id)
        sum += dy[(int64)other * width + column];
    dtable[(int64)id * width + column] = sum;
  }
}
