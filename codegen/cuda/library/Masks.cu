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
  int64 columns, size, units, group, keep; // group in units; keep of each
  int64 blockRows, blockColumns;

  __device__ int64 firstWeight(int64 unit) const {
    if (blockRows * blockColumns == 1)
      return unit;
    const int64 across = columns / blockColumns;
    return unit / across * blockRows * columns + unit % across * blockColumns;
  }
  /// visit(weight) for each weight of the unit, counted from the matrix's first.
  template <typename Visit> __device__ void forEach(int64 unit, Visit visit) const {
    const int64 first = firstWeight(unit);
    for (int64 row = 0; row < blockRows; ++row)
      for (int64 column = 0; column < blockColumns; ++column)
        visit(first + row * columns + column);
  }
  /// The sum of squares; exact products, so contraction into fused operations changes nothing.
  __device__ double square(const float *x, int64 unit) const {
    double sum = 0;
    forEach(unit, [&](int64 i) { sum += (double)x[i] * x[i]; });
    return sum;
  }
};

/// One block a matrix. `bytes` holds zeros.
extern "C" __global__ void __launch_bounds__(256)
    random_mask(unsigned char *bytes, const int64 *seed, uint64 stream, MaskUnits shape) {
  const int64 first = (int64)blockIdx.x * shape.size;
  const uint64 philoxKey = (uint64)*seed * 0x9E3779B97F4A7C15ull ^ stream;
  unsigned char *own = bytes + first;
  auto wanted = [&](int64 unit) { return own[shape.firstWeight(unit)] == 0; };
  auto key = [&](int64 unit) { return (uint64)philoxBits((uint64)(first + shape.firstWeight(unit)), 0, philoxKey); };
  auto take = [&](int64 unit) { shape.forEach(unit, [&](int64 i) { own[i] = 1; }); };
  if (shape.group == shape.units)
    blockSelect(shape.units, shape.keep, wanted, key, take);
  else
    for (int64 begin = threadIdx.x * shape.group; begin < shape.units; begin += blockDim.x * shape.group)
      threadSelect(begin, begin + shape.group, shape.keep, wanted, key, take);
}

struct MaskPlaces {
  float *weight, *average, *square, *age; // age: or null
  const float *gradient;                  // or null: growth is random
};

struct MaskUpdateSettings {
  const int64 *seed, *step, *amount;
  uint64 stream, dropStream;
  int64 target; // units of a group that stay at the end
  int isSigned, isSoft, prunes;
  float restart;
};

/// Units for which wanted(unit) holds, in every thread. All threads of the block must call it.
template <typename Wanted> __device__ inline int64 countUnits(int64 units, Wanted wanted) {
  int64 count = 0;
  for (int64 unit = threadIdx.x; unit < units; unit += blockDim.x)
    count += wanted(unit);
  return blockReduce<Sum>(count);
}

/// Drops ceil(count amount / 10^9) of the `count` wanted units: fewer than 2^31 times at most 10^9 fit into 63 bits.
template <typename Wanted, typename Key, typename Drop>
__device__ inline void dropShare(int64 units, int64 amount, Wanted wanted, Key key, Drop drop) {
  const int64 billion = 1000000000, count = countUnits(units, wanted), share = (count * amount + billion - 1) / billion;
  blockSelect(units, share < count ? share : count, wanted, key, drop);
  __syncthreads(); // other threads look at these units next
}

/// One block a matrix: drop, then grow, as docs/dialects/sluice.md (update_mask) says.
extern "C" __global__ void __launch_bounds__(256)
    update_mask(unsigned char *bytes, MaskPlaces places, MaskUnits shape, MaskUpdateSettings settings) {
  const int64 first = (int64)blockIdx.x * shape.size, billion = 1000000000, amount = *settings.amount;
  const uint64 seed = (uint64)*settings.seed * 0x9E3779B97F4A7C15ull, step = (uint64)*settings.step;
  unsigned char *own = bytes + first;
  const float *weight = places.weight + first;
  auto kept = [&](int64 unit) { return own[shape.firstWeight(unit)] != 0; };
  auto free = [&](int64 unit) { return own[shape.firstWeight(unit)] == 0; };
  auto set = [&](int64 unit, unsigned char keep, float age) {
    shape.forEach(unit, [&](int64 i) {
      own[i] = keep;
      places.weight[first + i] = places.average[first + i] = places.square[first + i] = 0.0f;
      if (places.age)
        places.age[first + i] = age;
    });
  };
  auto drop = [&](int64 unit) { set(unit, 0, 0.0f); };
  auto dropKey = [&](int64 unit) {
    const double square = shape.square(weight, unit);
    if (!settings.isSoft)
      return magnitudeKey(square);
    return softDropKey(square, philoxBits((uint64)(first + shape.firstWeight(unit)), step, seed ^ settings.dropStream));
  };
  if (settings.prunes) {
    const int64 stay = shape.keep - (shape.keep - settings.target) * amount / billion;
    if (shape.group == shape.units) {
      blockSelect(shape.units, countUnits(shape.units, kept) - stay, kept, dropKey, drop);
      return;
    }
    for (int64 begin = threadIdx.x * shape.group; begin < shape.units; begin += blockDim.x * shape.group) {
      int64 there = 0;
      for (int64 unit = begin; unit < begin + shape.group; ++unit)
        there += kept(unit);
      threadSelect(begin, begin + shape.group, there - stay, kept, dropKey, drop);
    }
    return;
  }
  if (settings.isSigned) {
    dropShare(shape.units, amount, [&](int64 unit) { return kept(unit) && weight[unit] < 0; }, dropKey, drop);
    dropShare(shape.units, amount, [&](int64 unit) { return kept(unit) && !(weight[unit] < 0); }, dropKey, drop);
  } else {
    dropShare(shape.units, amount, kept, dropKey, drop);
  }
  auto growKey = [&](int64 unit) {
    if (places.gradient)
      return descendingKey(shape.square(places.gradient + first, unit));
    return (uint64)philoxBits((uint64)(first + shape.firstWeight(unit)), step, seed ^ settings.stream);
  };
  auto grow = [&](int64 unit) { set(unit, 1, settings.restart); };
  if (shape.group == shape.units) {
    blockSelect(shape.units, shape.keep - countUnits(shape.units, kept), free, growKey, grow);
    return;
  }
  for (int64 begin = threadIdx.x * shape.group; begin < shape.units; begin += blockDim.x * shape.group) {
    int64 there = 0;
    for (int64 unit = begin; unit < begin + shape.group; ++unit)
      there += kept(unit);
    threadSelect(begin, begin + shape.group, shape.keep - there, free, growKey, grow);
  }
}
