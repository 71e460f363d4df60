// Names and small helpers that every kernel uses. No header of the toolkit is included anywhere in this folder.
#pragma once

typedef long long int64;
typedef unsigned long long uint64;
typedef unsigned int uint32;

__device__ inline int64 globalThread() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline int64 globalThreads() { return (int64)gridDim.x * blockDim.x; }
/// Number of the warp among all warps of the grid, and how many there are; for kernels with one row a warp.
__device__ inline uint32 globalWarp() { return blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; }
__device__ inline uint32 globalWarps() { return gridDim.x * (blockDim.x / 32); }
__device__ inline int lane() { return threadIdx.x % 32; }

/// Element i of four neighbours; in an unrolled loop they stay in registers.
__device__ inline float member(const float4 &four, int i) { return (&four.x)[i]; }
__device__ inline float &member(float4 &four, int i) { return (&four.x)[i]; }

__device__ inline float negativeInfinity() { return __int_as_float(0xff800000); }
__device__ inline bool isNan(float x) { return x != x; }
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// The larger value; NaN if either is (IEEE 754 maximum, as in the interpreter).
__device__ inline float maximum(float a, float b) { return isNan(a) || isNan(b) ? a + b : fmaxf(a, b); }
__device__ inline float minimum(float a, float b) { return isNan(a) || isNan(b) ? a + b : fminf(a, b); }
