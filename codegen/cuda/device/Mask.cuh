// The bits of a mask, and choosing units of it: keys as on the CPU (runtime/device/cpu/MaskKeys.h,
// runtime/support/SoftDrop.h), the smallest pairs of (key, unit) by a radix search, without floating-point sums over threads.
#pragma once
#include "Philox.cuh"
#include "Reduce.cuh"

__device__ inline bool isKept(const unsigned char *bits, int64 i) { return (bits[i >> 3] >> (i & 7) & 1) != 0; }

/// Orders as |x| does; NaN as infinity.
__device__ inline uint64 magnitudeKey(double x) {
  const uint64 infinity = (uint64)0x7ff << 52, bits = (uint64)__double_as_longlong(x) & ~((uint64)1 << 63);
  return bits < infinity ? bits : infinity;
}
/// Large magnitudes first, then zeros in the order of draw(), NaN last.
template <typename Draw> __device__ inline uint64 descendingKey(double x, Draw draw) {
  const uint64 infinity = (uint64)0x7ff << 52;
  if (x == 0)
    return infinity + (draw() >> 2);
  return x != x ? ~(uint64)0 : infinity - magnitudeKey(x);
}

/// log2(x) in units of 2^-32, as fixedLog2 on the host. It and the key are functions of their own: inlined they are most of a
/// kernel.
__device__ __noinline__ int64 fixedLog2(uint64 x) {
  const int exponent = 63 - __clzll((int64)x);
  uint64 mantissa = x << (63 - exponent);
  int64 value = exponent;
#pragma unroll 1 // three logarithms of 32 squares each would be most of a kernel
  for (int bit = 0; bit < 32; ++bit) {
    const uint64 square = __umul64hi(mantissa, mantissa);
    const bool atLeastTwo = square >> 63 != 0;
    mantissa = atLeastTwo ? square : square << 1;
    value = 2 * value + (atLeastTwo ? 1 : 0);
  }
  return value;
}

/// softDropKey of the host.
__device__ __noinline__ uint64 softDropKey(double square, uint32 draw) {
  const uint64 bits = (uint64)__double_as_longlong(square);
  const int64 exponent = (int64)(bits >> 52 & 0x7ff), one = (int64)1 << 32;
  if (exponent == 0x7ff)
    return 0xffffffffu;
  if (exponent == 0)
    return 0;
  const int64 logSquare = fixedLog2((bits & (((uint64)1 << 52) - 1)) | (uint64)1 << 52) + (exponent - 1075) * one;
  const int64 minusLogU = 33 * one - fixedLog2(2 * (uint64)draw + 1);
  const int64 score = (3 * logSquare >> 1) - (fixedLog2((uint64)minusLogU) - 32 * one);
  const int64 key = (score + 512 * one) >> 10;
  return (uint64)(key < 1 ? 1 : key > 0xfffffffe ? 0xfffffffe : key);
}

/// Calls take(unit) for the `count` smallest pairs (key(unit), unit) of the units in [0, units) for which wanted(unit) holds,
/// at least `count` of them. Units are numbered in 32 bits: a matrix has fewer than 2^31 weights. key and wanted of a unit
/// may depend on what take of that unit alone changes. All threads of the block (at most 256) must call it, once a kernel.
template <typename Wanted, typename Key, typename Take>
__device__ inline void blockSelect(uint32 units, int64 count, Wanted wanted, Key key, Take take) {
  __shared__ unsigned int histogram[256];
  __shared__ uint64 prefix;
  __shared__ int64 left;
  if (count <= 0) // the same in all threads
    return;
  if (threadIdx.x == 0)
    prefix = 0, left = count;
  // The last key that is taken, eight bits at a time from the top; `left` of the units with it are taken.
#pragma unroll 1 // eight copies of the search would not fit into the registers
  for (int shift = 56; shift >= 0; shift -= 8) {
#pragma unroll 1
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
      histogram[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (uint32 unit = threadIdx.x; unit < units; unit += blockDim.x)
      if (wanted(unit)) {
        const uint64 own = key(unit);
        if (shift == 56 || own >> (shift + 8) == prefix >> (shift + 8))
          atomicAdd(&histogram[own >> shift & 255], 1u);
      }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 0;
      while (digit < 255 && left > (int64)histogram[digit])
        left -= histogram[digit++];
      prefix |= (uint64)digit << shift;
    }
    __syncthreads();
  }
  // Units with the last key: those of lower index, so each thread looks at a piece of neighbours.
  __shared__ uint32 before[256];
  const uint32 piece = (units + blockDim.x - 1) / blockDim.x, begin = min(piece * threadIdx.x, units),
               end = min(begin + piece, units);
  uint32 equal = 0;
  int64 rank = 0;
#pragma unroll 1 // the keys' code once for both passes: count the equal ones, then take
  for (int pass = 0; pass < 2; ++pass) {
#pragma unroll 1
    for (uint32 unit = begin; unit < end; ++unit)
      if (wanted(unit)) {
        const uint64 own = key(unit);
        if (pass == 0)
          equal += own == prefix;
        else if (own < prefix || (own == prefix && rank++ < left))
          take(unit);
      }
    if (pass > 0)
      return;
    before[threadIdx.x] = equal;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < (int)threadIdx.x; ++i)
      rank += before[i];
  }
}

/// The same for the few units of one group, by one thread.
template <typename Wanted, typename Key, typename Take>
__device__ inline void threadSelect(uint32 begin, uint32 end, int64 count, Wanted wanted, Key key, Take take) {
#pragma unroll 1
  for (int64 k = 0; k < count; ++k) {
    bool found = false;
    uint32 best = 0;
    uint64 bestKey = 0;
#pragma unroll 1
    for (uint32 unit = begin; unit < end; ++unit)
      if (wanted(unit))
        if (const uint64 own = key(unit); !found || own < bestKey)
          found = true, best = unit, bestKey = own;
    if (found)
      take(best);
  }
}
