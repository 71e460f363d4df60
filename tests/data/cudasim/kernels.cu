// Whole kernels of the simulator's tests: what each computes is in its comment, the tests compare with float64.

// out[0] += sum of x[0..n); one atomic a block.
extern "C" __global__ void __launch_bounds__(256) reduceSum(const float *__restrict__ x, float *out, int n) {
  __shared__ float part[8];
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    v += x[i];
  for (int o = 16; o; o >>= 1)
    v += __shfl_xor_sync(0xffffffffu, v, o);
  if ((threadIdx.x & 31) == 0)
    part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < 8 ? part[threadIdx.x] : 0.f;
    for (int o = 4; o; o >>= 1)
      v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x == 0)
      atomicAdd(out, v);
  }
}

// y[r][c] = exp(x[r][c] - max_c) / sum_c; one block of 128 a row.
extern "C" __global__ void softmaxRows(const float *__restrict__ x, float *__restrict__ y, int columns) {
  __shared__ float scratch[128];
  const float *row = x + (size_t)blockIdx.x * columns;
  float m = __int_as_float(0xff800000);
  for (int c = threadIdx.x; c < columns; c += 128)
    m = fmaxf(m, row[c]);
  scratch[threadIdx.x] = m;
  __syncthreads();
  for (int o = 64; o; o >>= 1) {
    if (threadIdx.x < o)
      scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + o]);
    __syncthreads();
  }
  m = scratch[0];
  __syncthreads();
  float s = 0;
  for (int c = threadIdx.x; c < columns; c += 128)
    s += expf(row[c] - m);
  scratch[threadIdx.x] = s;
  __syncthreads();
  for (int o = 64; o; o >>= 1) {
    if (threadIdx.x < o)
      scratch[threadIdx.x] += scratch[threadIdx.x + o];
    __syncthreads();
  }
  s = scratch[0];
  for (int c = threadIdx.x; c < columns; c += 128)
    y[(size_t)blockIdx.x * columns + c] = expf(row[c] - m) / s;
}

// c[M][N] = a[M][K] b[K][N], 16 x 16 tiles in shared memory.
extern "C" __global__ void __launch_bounds__(256)
    matmulTiled(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int M, int N, int K) {
  __shared__ float as[16][16];
  __shared__ float bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k0 = 0; k0 < K; k0 += 16) {
    as[ty][tx] = row < M && k0 + tx < K ? a[row * K + k0 + tx] : 0.f;
    bs[ty][tx] = col < N && k0 + ty < K ? b[(k0 + ty) * N + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
      sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N)
    c[row * N + col] = sum;
}

// y = inclusive sums of x within each block of blockDim.x; dynamic shared memory of as many ints.
extern "C" __global__ void blockScan(const int *__restrict__ x, int *__restrict__ y) {
  extern __shared__ int values[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  values[t] = x[i];
  __syncthreads();
  for (int o = 1; o < blockDim.x; o <<= 1) {
    int add = t >= o ? values[t - o] : 0;
    __syncthreads();
    values[t] += add;
    __syncthreads();
  }
  y[i] = values[t];
}

// y[i] = number of steps of the Collatz sequence from i + 1 to 1: every lane leaves its loop at another time.
extern "C" __global__ void collatz(int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  long long v = i + 1;
  int steps = 0;
  while (v != 1) {
    if (v & 1)
      v = 3 * v + 1;
    else
      v >>= 1;
    if (++steps > 1000)
      break;
  }
  y[i] = steps;
}

// A lock that lanes of one warp contend for: count[0] ends as the number of threads.
extern "C" __global__ void spinLock(int *lock, volatile int *count) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      count[0] = count[0] + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// The last block to finish adds up what all have left: a sum without a second kernel.
extern "C" __global__ void lastBlockSum(const float *x, float *partial, unsigned *ticket, float *out, int fenced) {
  __shared__ bool last;
  float v = x[blockIdx.x * 32 + threadIdx.x];
  for (int o = 16; o; o >>= 1)
    v += __shfl_xor_sync(0xffffffffu, v, o);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;
    if (fenced)
      __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int b = 0; b < gridDim.x; b++)
      s += partial[b];
    out[0] = s;
  }
}

__device__ __noinline__ float polynomial(float x, const float *c, int n) {
  float s = 0;
  for (int i = n - 1; i >= 0; i--)
    s = s * x + c[i];
  return s;
}
__constant__ float table[4] = {1.f, -2.f, 0.5f, 0.25f};

// A call, a local array, constant memory: y[i] = (p + x[i])(x[i]) over the polynomial of the table, shifted by i % 3.
extern "C" __global__ void callsAndLocals(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float c[4];
  for (int k = 0; k < 4; k++)
    c[k] = table[(k + i % 3) & 3];
  y[i] = polynomial(x[i], c, 4);
}

// y = x, which the stream and graph tests move about.
extern "C" __global__ void scaleAdd(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}

// 32 lanes read shared memory `stride` words apart: stride - 1 conflicts for a power of two up to 32.
extern "C" __global__ void strided(float *y, int stride) {
  __shared__ float s[1024];
  for (int i = threadIdx.x; i < 1024; i += 32)
    s[i] = i;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x * stride & 1023];
}
