// Kernels with a fault, chosen by `bug`, and without. The tests want the fault found at its line and nothing else.
// The marks "FAULT name" at line ends are read by the tests.

extern "C" __global__ void outOfBounds(float *y, int n, int bug) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (bug ? i <= n : i < n)
    y[i] = 1.f; // FAULT outOfBounds
}

extern "C" __global__ void misaligned(float *y, int bug) {
  *(float2 *)(y + (bug ? 1 : 2)) = make_float2(1.f, 2.f); // FAULT misaligned
}

extern "C" __global__ void sharedOverrun(float *y, int bug) {
  extern __shared__ float s[];
  s[threadIdx.x + (bug ? 1 : 0)] = 1.f; // FAULT sharedOverrun
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x ? threadIdx.x : blockDim.x - 1];
}

extern "C" __global__ void uninitialisedShared(float *y, int bug) {
  __shared__ float s[64];
  if (!bug || threadIdx.x != 7)
    s[threadIdx.x] = 2.f;
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x]; // FAULT uninitialisedShared
}

extern "C" __global__ void uninitialisedGlobal(const float *x, float *y, int bug) {
  y[threadIdx.x] = x[threadIdx.x + bug]; // FAULT uninitialisedGlobal
}

extern "C" __global__ void missingBarrier(float *y, int bug) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  if (!bug)
    __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x]; // FAULT missingBarrier
}

extern "C" __global__ void missingWarpSync(float *y, int bug) {
  __shared__ float s[32];
  s[threadIdx.x] = threadIdx.x;
  if (!bug)
    __syncwarp();
  y[threadIdx.x] = s[31 - threadIdx.x]; // FAULT missingWarpSync
}

extern "C" __global__ void blocksCollide(int *y, int bug) {
  if (bug)
    y[threadIdx.x] += blockIdx.x; // FAULT blocksCollide
  else
    atomicAdd(y + threadIdx.x, (int)blockIdx.x);
}

extern "C" __global__ void divergentBarrier(float *y, int bug) {
  __shared__ float s[64];
  s[threadIdx.x] = 1.f;
  if (bug ? threadIdx.x < 48 : true)
    __syncthreads(); // FAULT divergentBarrier
  y[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void earlyReturn(float *y, int bug) {
  if (bug && threadIdx.x >= 40)
    return;
  y[threadIdx.x] = 1.f;
  __syncthreads(); // FAULT earlyReturn
  y[threadIdx.x] += 1.f;
}

extern "C" __global__ void shuffleMask(int *y, int bug) {
  int v = threadIdx.x;
  if (threadIdx.x < 16)
    v = __shfl_down_sync(bug ? 0xffu : 0xffffu, v, 1, 16); // FAULT shuffleMask
  y[threadIdx.x] = v;
}

extern "C" __global__ void waitForEver(int *y, int bug) {
  if (bug && threadIdx.x < 32)
    asm volatile("bar.sync 1, 64;"); // FAULT waitForEver
  y[threadIdx.x] = 1;
}

extern "C" __global__ void lanesCollide(int *y, int bug) {
  y[threadIdx.x / 32] = bug ? (int)threadIdx.x : 7; // FAULT lanesCollide
}

extern "C" __global__ void lanesCollideShared(int *y, int bug) {
  __shared__ int s[2];
  const int i = bug ? 0 : threadIdx.x;
  if (threadIdx.x < 2)
    s[i] = threadIdx.x + 1; // FAULT lanesCollideShared
  __syncthreads();
  y[threadIdx.x] = s[0];
}

extern "C" __global__ void lanesCollideHere(int *y) {
  y[0] = threadIdx.x; // FAULT lanesCollideHere
}
