// Rotary positions.
#include "Types.cuh"

/// Elements [offset, offset + 2 half) of a head turn, in pairs half apart or, interleaved, of neighbours; the
/// others pass. Tables hold cosine and sine of [sequence, half]. One pair or one passing element a thread.
extern "C" __global__ void rope(float *y, const float *x, const float *cosine, const float *sine, int64 count, int sequence,
                                int heads, int headDim, int offset, int half, int interleaved, float direction) {
  const int units = headDim - half;
  for (int64 index = globalThread(); index < count; index += globalThreads()) {
    const int i = (int)(index % units);
    const int64 row = index / units; // token * heads + head
    const int64 head = row * headDim;
    if (i >= half) {
      const int place = i - half, at = place < offset ? place : place + 2 * half;
      y[head + at] = x[head + at];
      continue;
    }
    const int s = (int)(row / heads % sequence);
    const float c = cosine[s * half + i], t = direction * sine[s * half + i];
    const int64 first = head + offset + (interleaved ? 2 * i : i), second = first + (interleaved ? 1 : half);
    const float a = x[first], b = x[second];
    y[first] = a * c - b * t;
    y[second] = b * c + a * t;
  }
}
