// Masks: random ones, selection by them, and their update. A mask is one bit a weight; while one is chosen it lies as one
// byte a weight, so that no two threads share a word.
#include "Mask.cuh"

/// y[i] = x[i] where the mask keeps, else 0.
extern "C" __global__ void apply_mask(float *y, const float *x, const unsigned char *bits, int64 count) {
  for (int64 i = globalThread(); i < count; i += globalThreads())
    y[i] = isKept(bits, i) ? x[i] : 0.0f;
}

extern "C" __global__ void unpack_mask(unsigned char *bytes, const unsigned char *bits, int64 count) {
  for (int64 i = globalThread(); i < count; i += globalThreads())
    bytes[i] = isKept(bits, i);
}

/// `size` bytes of bits; those beyond `count` weights are 0.
extern "C" __global__ void pack_mask(unsigned char *bits, const unsigned char *bytes, int64 count, int64 size) {
  for (int64 at = globalThread(); at < size; at += globalThreads()) {
    unsigned char byte = 0;
    for (int64 i = at * 8; i < at * 8 + 8 && i < count; ++i)
      byte = (unsigned char)(byte | bytes[i] << (i & 7));
    bits[at] = byte;
  }
}

/// What a mask's matrices look like (runtime/device/MaskPattern.h): units are weights, or blocks.
struct MaskUnits {
  uint32 columns, size, units, group, keep; // group in units; keep of each
  uint32 blockRows, blockColumns;

  __device__ uint32 firstWeight(uint32 unit) const {
    if (blockRows * blockColumns == 1)
      return unit;
    const uint32 across = columns / blockColumns;
    return unit / across * blockRows * columns + unit % across * blockColumns;
  }
  /// visit(weight) for each weight of the unit, counted from the matrix's first.
  template <typename Visit> __device__ void forEach(uint32 unit, Visit visit) const {
    const uint32 first = firstWeight(unit);
#pragma unroll 1 // most units are single weights
    for (uint32 row = 0; row < blockRows; ++row)
#pragma unroll 1
      for (uint32 column = 0; column < blockColumns; ++column)
        visit(first + row * columns + column);
  }
  /// The sum of squares; exact products, so contraction into fused operations changes nothing.
  __device__ double square(const float *x, uint32 unit) const {
    double sum = 0;
    forEach(unit, [&](uint32 i) { sum += (double)x[i] * x[i]; });
    return sum;
  }
};

/// A matrix whose mask is drawn: all units are wanted that are not taken yet.
struct DrawnMatrix {
  unsigned char *own;
  int64 first; // weight in the whole tensor
  const MaskUnits &shape;
  uint64 philoxKey;

  __device__ DrawnMatrix(unsigned char *bytes, const int64 *seed, uint64 stream, const MaskUnits &shape)
      : own(bytes + (int64)blockIdx.x * shape.size), first((int64)blockIdx.x * shape.size), shape(shape),
        philoxKey((uint64)*seed * 0x9E3779B97F4A7C15ull ^ stream) {}
  __device__ bool wanted(uint32 unit) const { return own[shape.firstWeight(unit)] == 0; }
  __device__ uint64 key(uint32 unit) const {
    return (uint64)philoxBits((uint64)(first + shape.firstWeight(unit)), 0, philoxKey);
  }
  __device__ void take(uint32 unit) const {
    shape.forEach(unit, [&](uint32 i) { own[i] = 1; });
  }
};

/// A matrix without groups; one block each. `bytes` holds zeros.
extern "C" __global__ void __launch_bounds__(256, 1)
    random_mask(unsigned char *bytes, const int64 *seed, uint64 stream, MaskUnits shape) {
  const DrawnMatrix matrix(bytes, seed, stream, shape);
  blockSelect(shape.units, shape.keep, [&](uint32 unit) { return matrix.wanted(unit); },
              [&](uint32 unit) { return matrix.key(unit); }, [&](uint32 unit) { matrix.take(unit); });
}

/// The same for the groups of an n:m pattern, one thread a group.
extern "C" __global__ void __launch_bounds__(256, 1)
    random_groups(unsigned char *bytes, const int64 *seed, uint64 stream, MaskUnits shape) {
  const DrawnMatrix matrix(bytes, seed, stream, shape);
  for (uint32 begin = threadIdx.x * shape.group; begin < shape.units; begin += blockDim.x * shape.group)
    threadSelect(begin, begin + shape.group, shape.keep, [&](uint32 unit) { return matrix.wanted(unit); },
                 [&](uint32 unit) { return matrix.key(unit); }, [&](uint32 unit) { matrix.take(unit); });
}

struct MaskPlaces {
  float *weight, *average, *square, *age; // age: or null
};

/// One matrix of a mask that is updated.
struct MaskMatrix {
  unsigned char *bytes;
  const MaskPlaces &places;
  const MaskUnits &shape;
  int64 first; // weight in the whole tensor

  __device__ MaskMatrix(unsigned char *bytes, const MaskPlaces &places, const MaskUnits &shape, int64 index)
      : bytes(bytes + index * shape.size), places(places), shape(shape), first(index * shape.size) {}
  __device__ const float *weight() const { return places.weight + first; }
  __device__ bool kept(uint32 unit) const { return bytes[shape.firstWeight(unit)] != 0; }
  __device__ uint32 draw(uint32 unit, uint64 step, uint64 key) const {
    return philoxBits((uint64)(first + shape.firstWeight(unit)), step, key);
  }
  __device__ void set(uint32 unit, unsigned char keep, float age) const {
    shape.forEach(unit, [&](uint32 i) {
      bytes[i] = keep;
      places.weight[first + i] = places.average[first + i] = places.square[first + i] = 0.0f;
      if (places.age)
        places.age[first + i] = age;
    });
  }
  /// Kept units of the group at `begin`.
  __device__ int64 keptOfGroup(uint32 begin) const {
    int64 there = 0;
    for (uint32 unit = begin; unit < begin + shape.group; ++unit)
      there += kept(unit);
    return there;
  }
};

/// Units for which wanted(unit) holds, in every thread. All threads of the block must call it.
template <typename Wanted> __device__ inline uint32 countUnits(uint32 units, Wanted wanted) {
  uint32 count = 0;
#pragma unroll 1
  for (uint32 unit = threadIdx.x; unit < units; unit += blockDim.x)
    count += wanted(unit);
  return blockReduce<Sum>(count);
}

const int64 billion = 1000000000;

/// Drops ceil(count amount / 10^9) of the kept units of `sign` (-1: below zero, 1: the others, 0: all), the smallest
/// magnitudes or soft keys first. One block a matrix.
template <bool isSoft>
__device__ inline void dropUnits(const MaskMatrix &matrix, const int64 *seed, const int64 *step, const int64 *amount,
                                 uint64 stream, int sign) {
  const MaskUnits &shape = matrix.shape;
  const uint64 philoxKey = (uint64)*seed * 0x9E3779B97F4A7C15ull ^ stream, philoxStep = (uint64)*step;
  auto wanted = [&](uint32 unit) {
    return matrix.kept(unit) && (sign == 0 || (matrix.weight()[unit] < 0) == (sign < 0));
  };
  auto key = [&](uint32 unit) {
    const double square = shape.square(matrix.weight(), unit);
    return isSoft ? softDropKey(square, matrix.draw(unit, philoxStep, philoxKey)) : magnitudeKey(square);
  };
  // Fewer than 2^31 units times at most 10^9 fit into 63 bits.
  const int64 count = countUnits(shape.units, wanted), share = (count * *amount + billion - 1) / billion;
  blockSelect(shape.units, share < count ? share : count, wanted, key, [&](uint32 unit) { matrix.set(unit, 0, 0.0f); });
}

extern "C" __global__ void __launch_bounds__(256, 1)
    drop_mask(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *seed, const int64 *step, const int64 *amount,
              uint64 stream, int sign) {
  dropUnits<false>(MaskMatrix(bytes, places, shape, blockIdx.x), seed, step, amount, stream, sign);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    drop_mask_softly(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *seed, const int64 *step,
                     const int64 *amount, uint64 stream, int sign) {
  dropUnits<true>(MaskMatrix(bytes, places, shape, blockIdx.x), seed, step, amount, stream, sign);
}

/// Gradual pruning of matrices without groups: as many units stay as the share of the way to `target` allows. One block a
/// matrix.
extern "C" __global__ void __launch_bounds__(256, 1)
    prune_mask(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *amount, int64 target) {
  const MaskMatrix matrix(bytes, places, shape, blockIdx.x);
  const int64 stay = shape.keep - ((int64)shape.keep - target) * *amount / billion;
  auto wanted = [&](uint32 unit) { return matrix.kept(unit); };
  const int64 count = countUnits(shape.units, wanted);
  blockSelect(shape.units, count - stay, wanted,
              [&](uint32 unit) { return magnitudeKey(shape.square(matrix.weight(), unit)); },
              [&](uint32 unit) { matrix.set(unit, 0, 0.0f); });
}

/// The same for the groups of an n:m pattern; one thread a group, `groups` in all matrices.
extern "C" __global__ void prune_groups(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *amount, int64 target,
                                        int64 groups) {
  const int64 stay = shape.keep - ((int64)shape.keep - target) * *amount / billion, each = shape.units / shape.group;
  for (int64 index = globalThread(); index < groups; index += globalThreads()) {
    const MaskMatrix matrix(bytes, places, shape, index / each);
    const uint32 begin = (uint32)(index % each) * shape.group;
    threadSelect(begin, begin + shape.group, matrix.keptOfGroup(begin) - stay,
                 [&](uint32 unit) { return matrix.kept(unit); },
                 [&](uint32 unit) { return magnitudeKey((double)matrix.weight()[unit]); },
                 [&](uint32 unit) { matrix.set(unit, 0, 0.0f); });
  }
}

/// Units that are not kept come until a matrix without groups keeps its number: those with the smallest draws or, by gradient,
/// the largest sums of squares of it. One block a matrix.
template <bool byGradient>
__device__ inline void growUnits(const MaskMatrix &matrix, const int64 *seed, const int64 *step, uint64 stream,
                                 const float *gradient, float restart) {
  const MaskUnits &shape = matrix.shape;
  const uint64 philoxKey = (uint64)*seed * 0x9E3779B97F4A7C15ull ^ stream, philoxStep = (uint64)*step;
  auto wanted = [&](uint32 unit) { return !matrix.kept(unit); };
  const int64 count = countUnits(shape.units, wanted);
  blockSelect(shape.units, shape.keep - ((int64)shape.units - count), wanted,
              [&](uint32 unit) {
                auto draw = [&]() { return matrix.draw(unit, philoxStep, philoxKey); };
                return byGradient ? descendingKey(shape.square(gradient + matrix.first, unit), draw) : (uint64)draw();
              },
              [&](uint32 unit) { matrix.set(unit, 1, restart); });
}

extern "C" __global__ void __launch_bounds__(256, 1)
    grow_mask(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *seed, const int64 *step, uint64 stream,
              const float *gradient, float restart) {
  growUnits<false>(MaskMatrix(bytes, places, shape, blockIdx.x), seed, step, stream, gradient, restart);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    grow_mask_by_gradient(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *seed, const int64 *step,
                          uint64 stream, const float *gradient, float restart) {
  growUnits<true>(MaskMatrix(bytes, places, shape, blockIdx.x), seed, step, stream, gradient, restart);
}

/// The same for the groups of an n:m pattern; one thread a group.
extern "C" __global__ void grow_groups(unsigned char *bytes, MaskPlaces places, MaskUnits shape, const int64 *seed,
                                       const int64 *step, uint64 stream, const float *gradient, float restart, int64 groups) {
  const uint64 philoxKey = (uint64)*seed * 0x9E3779B97F4A7C15ull ^ stream, philoxStep = (uint64)*step;
  const int64 each = shape.units / shape.group;
  for (int64 index = globalThread(); index < groups; index += globalThreads()) {
    const MaskMatrix matrix(bytes, places, shape, index / each);
    const uint32 begin = (uint32)(index % each) * shape.group;
    threadSelect(begin, begin + shape.group, shape.keep - matrix.keptOfGroup(begin),
                 [&](uint32 unit) { return !matrix.kept(unit); },
                 [&](uint32 unit) {
                   auto draw = [&]() { return matrix.draw(unit, philoxStep, philoxKey); };
                   return gradient ? descendingKey((double)gradient[matrix.first + unit], draw) : (uint64)draw();
                 },
                 [&](uint32 unit) { matrix.set(unit, 1, restart); });
  }
}
