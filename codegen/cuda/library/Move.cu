// Commands that move values: copies with strides and lookups.
#include "Types.cuh"

/// y[i...] = x[start + sum of i_k stride_k]: transpose, slice, concat and copy.
struct StridedCopy {
  int rank;
  uint32 size[8];
  int64 start, startY, strideX[8], strideY[8];
};

template <typename Element> __device__ inline void stridedCopy(Element *y, const Element *x, const StridedCopy &shape, uint32 count) {
  for (int64 index = globalThread(); index < count; index += globalThreads()) {
    uint32 rest = (uint32)index;
    int64 from = shape.start, to = shape.startY;
#pragma unroll 1
    for (int i = shape.rank - 1; i >= 0; --i) {
      const uint32 position = rest % shape.size[i];
      rest /= shape.size[i];
      from += position * shape.strideX[i];
      to += position * shape.strideY[i];
    }
    y[to] = x[from];
  }
}

extern "C" __global__ void strided_copy_1(unsigned char *y, const unsigned char *x, StridedCopy shape, uint32 count) {
  stridedCopy(y, x, shape, count);
}
extern "C" __global__ void strided_copy_2(unsigned short *y, const unsigned short *x, StridedCopy shape, uint32 count) {
  stridedCopy(y, x, shape, count);
}
extern "C" __global__ void strided_copy_4(uint32 *y, const uint32 *x, StridedCopy shape, uint32 count) {
  stridedCopy(y, x, shape, count);
}
extern "C" __global__ void strided_copy_8(uint64 *y, const uint64 *x, StridedCopy shape, uint32 count) {
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

/// y[i] = table[ids[i]], one row a warp; an id outside the table gives zeros and raises *damage.
extern "C" __global__ void lookup(uint32 *y, const int *ids, const uint32 *table, uint32 count, int rows, int width, int *damage) {
  for (uint32 row = globalWarp(); row < count; row += globalWarps()) {
    const int id = ids[row];
    const bool valid = id >= 0 && id < rows;
    for (int column = lane(); column < width; column += 32)
      y[(int64)row * width + column] = valid ? table[(int64)id * width + column] : 0u;
    if (!valid)
      *damage = 1;
  }
}
