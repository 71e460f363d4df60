// The adjoint of a lookup: ids are sorted with their places (a stable radix sort, eight bits a pass from the lowest), then each
// segment of equal ids is summed by one owner in the order of the uses. No sum depends on the order of threads.
#include "Types.cuh"

const int digitCount = 256, usesPerBlock = 1024; // blocks have digitCount threads

/// One pass of the sort, over the digit from bit `shift` on.
struct SortPass {
  int count, rows, shift;
};

/// The ids as they are sorted; those outside the table go with id 0, whose sum leaves them out.
struct SortKeys {
  const int *ids;
  SortPass pass;

  __device__ int key(int i) const { return ids[i] >= 0 && ids[i] < pass.rows ? ids[i] : 0; }
  __device__ int digit(int i) const { return key(i) >> pass.shift & (digitCount - 1); }
  /// Uses [begin(), end()) are this block's.
  __device__ int begin() const { return blockIdx.x * usesPerBlock; }
  __device__ int end() const { return min(pass.count, begin() + usesPerBlock); }
};

/// counts[digit][block]: how often each digit occurs among a block's keys.
extern "C" __global__ void __launch_bounds__(256) count_digits(int *counts, const int *ids, SortPass pass) {
  const SortKeys keys{ids, pass};
  __shared__ int histogram[digitCount];
  histogram[threadIdx.x] = 0;
  __syncthreads();
  for (int i = keys.begin() + (int)threadIdx.x; i < keys.end(); i += digitCount)
    atomicAdd(&histogram[keys.digit(i)], 1);
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = histogram[threadIdx.x];
}

/// Each count becomes the sum of those before it; one block.
extern "C" __global__ void __launch_bounds__(256) digit_offsets(int *counts, int count) {
  __shared__ int sums[digitCount];
  const int piece = (count + digitCount - 1) / digitCount, begin = min((int)threadIdx.x * piece, count),
            end = min(begin + piece, count);
  int sum = 0;
  for (int i = begin; i < end; ++i)
    sum += counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  int before = 0;
  for (int i = 0; i < (int)threadIdx.x; ++i)
    before += sums[i];
  for (int i = begin; i < end; ++i) {
    const int own = counts[i];
    counts[i] = before;
    before += own;
  }
}

/// The lanes of this warp whose digit equals this lane's; `taking` lanes have one.
__device__ inline uint32 lanesWithDigit(int digit, bool taking) {
  uint32 same = __ballot_sync(0xffffffffu, taking);
  for (int bit = 0; bit < 8; ++bit) {
    const uint32 ones = __ballot_sync(0xffffffffu, digit >> bit & 1);
    same &= digit >> bit & 1 ? ones : ~ones;
  }
  return same;
}

/// Puts keys and their places in the order of one digit; equal digits keep their order. `offsets` come from digit_offsets,
/// `places` are null before the first pass.
extern "C" __global__ void __launch_bounds__(256)
    place_by_digit(int *sortedIds, int *sortedPlaces, const int *ids, SortPass pass, const int *places,
                   const int *offsets) {
  const SortKeys keys{ids, pass};
  __shared__ int next[digitCount], warps[8][digitCount]; // where the digit's next key goes; its keys in this round's warps
  const int warp = threadIdx.x / 32;
  next[threadIdx.x] = offsets[threadIdx.x * gridDim.x + blockIdx.x];
  for (int other = 0; other < 8; ++other)
    warps[other][threadIdx.x] = 0;
  __syncthreads();
  for (int first = keys.begin(); first < keys.end(); first += digitCount) {
    const int i = first + (int)threadIdx.x;
    const bool taking = i < keys.end();
    const int digit = taking ? keys.digit(i) : 0;
    const uint32 same = lanesWithDigit(digit, taking);
    const int rank = __popc(same & ((1u << lane()) - 1));
    if (taking && rank == 0)
      warps[warp][digit] = __popc(same);
    __syncthreads();
    if (taking) {
      int to = next[digit] + rank;
      for (int earlier = 0; earlier < warp; ++earlier)
        to += warps[earlier][digit];
      sortedIds[to] = keys.key(i);
      sortedPlaces[to] = places ? places[i] : i;
    }
    __syncthreads(); // all have read what the digits' owners change
    for (int other = 0; other < 8; ++other) {
      next[threadIdx.x] += warps[other][threadIdx.x];
      warps[other][threadIdx.x] = 0;
    }
    __syncthreads();
  }
}

/// dtable[id] += dy of the uses of id, in increasing order: the block of a segment's first entry owns it. Ids outside the table
/// raise *damage.
extern "C" __global__ void lookup_gradient(float *dtable, const int *sortedIds, const int *sortedPlaces, const int *ids,
                                           const float *dy, int uses, int rows, int width, int *damage) {
  const int first = blockIdx.x, id = sortedIds[first], used = ids[sortedPlaces[first]];
  if (threadIdx.x == 0 && (used < 0 || used >= rows))
    *damage = 1;
  if (first > 0 && sortedIds[first - 1] == id)
    return;
  if (id >= rows) // a table without rows
    return;
  for (int column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = dtable[(int64)id * width + column];
    for (int i = first; i < uses && sortedIds[i] == id; ++i)
      if (ids[sortedPlaces[i]] == id)
        sum += dy[(int64)sortedPlaces[i] * width + column];
    dtable[(int64)id * width + column] = sum;
  }
}
