// Philox4x32-10 (Salmon et al. 2011), bit for bit the host's generator (runtime/support/Philox.h).
#pragma once
#include "Types.cuh"

struct PhiloxWords {
  uint32 word[4];
};

__device__ inline PhiloxWords philox(uint64 index, uint64 step, uint64 key) {
  uint32 a = (uint32)index, b = (uint32)(index >> 32), c = (uint32)step, d = (uint32)(step >> 32);
  uint32 low = (uint32)key, high = (uint32)(key >> 32);
#pragma unroll 1 // a mask's kernels draw at several places
  for (int round = 0; round < 10; ++round) {
    const uint64 first = (uint64)0xD2511F53u * a, second = (uint64)0xCD9E8D57u * c;
    const uint32 newA = (uint32)(second >> 32) ^ b ^ low, newC = (uint32)(first >> 32) ^ d ^ high;
    b = (uint32)second;
    d = (uint32)first;
    a = newA;
    c = newC;
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

/// 32 random bits: elements 4i .. 4i + 3 share one block.
__device__ inline uint32 philoxBits(uint64 element, uint64 step, uint64 key) {
  const PhiloxWords words = philox(element / 4, step, key);
  const uint32 low = element % 2 == 0 ? words.word[0] : words.word[1], high = element % 2 == 0 ? words.word[2] : words.word[3];
  return element % 4 < 2 ? low : high;
}

/// Standard normal by Box-Muller in double precision: elements 2i and 2i + 1 share one block.
__device__ inline double philoxNormal(uint64 element, uint64 step, uint64 key) {
  const PhiloxWords words = philox(element / 2, step, key);
  const double u = (words.word[0] + 1.0) * 2.3283064365386963e-10; // 2^-32: u in (0, 1]
  const double turns = words.word[1] * 2.3283064365386963e-10;
  const double radius = sqrt(-2.0 * log(u));
  // The half turn's own functions need no reduction by a long pi.
  return element % 2 == 0 ? radius * cospi(2.0 * turns) : radius * sinpi(2.0 * turns);
}
