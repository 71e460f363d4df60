// AdamW (Loshchilov and Hutter 2019) as PyTorch computes it, the global norm, and initial values.
#include "Mask.cuh"
#include "TensorList.cuh"

struct SquaredTensor {
  const float *gradient;
  int64 count;
  int endBlock;
};

/// parts[b] = sum of squares of block b's piece of a gradient, in double; pieces have blockDim.x * 32 elements.
extern "C" __global__ void squares(TensorList<SquaredTensor> tensors, double *parts) {
  const int own = tensors.find();
  const float *gradient = tensors.entry[own].gradient;
  const int64 piece = (int64)blockDim.x * 32, begin = tensors.blockOf(own) * piece,
              end = min(tensors.entry[own].count, begin + piece);
  double total = 0;
  for (int64 i = begin + threadIdx.x; i < end; i += blockDim.x)
    total += (double)gradient[i] * gradient[i];
  total = blockReduce<Sum>(total);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = total;
}

/// *norm = the root of the sum of all parts; one block.
extern "C" __global__ void global_norm(float *norm, const double *parts, int64 count) {
  double total = 0;
  for (int64 i = threadIdx.x; i < count; i += blockDim.x)
    total += parts[i];
  total = blockReduce<Sum>(total);
  if (threadIdx.x == 0)
    *norm = (float)sqrt(total);
}

struct AdamSettings {
  double beta1, beta2, epsilon, decay, clip;
};

/// A number in device memory: float32, float64, int32 or int64 by the codes of the runtime's ElementType.
struct Scalar {
  const void *place;
  int type;
  __device__ double read() const {
    return type == 1   ? *(const double *)place
           : type == 3 ? (double)*(const int *)place
           : type == 4 ? (double)*(const int64 *)place
                       : (double)*(const float *)place;
  }
};
struct AdamScalars {
  Scalar learningRate, step, tokens, norm;
};

/// One step's numbers, the same for every element.
struct AdamStep {
  bool update;
  float rest, scale, corrected, inverseRoot;
  double rate;

  __device__ AdamStep() = default;
  __device__ AdamStep(const AdamScalars &scalars, const AdamSettings &settings) {
    rate = scalars.learningRate.read();
    const double n = scalars.norm.read(), t = scalars.tokens.read();
    const double index = scalars.step.read();
    const bool finite = n - n == 0.0;
    update = finite && t > 0;
    rest = finite ? 0.0f : __int_as_float(0x7fffffff);
    scale = (float)((settings.clip > 0 ? min(1.0, settings.clip / (n / t + 1e-6)) : 1.0) / t);
    corrected = (float)(rate / (1.0 - pow(settings.beta1, index)));
    inverseRoot = (float)(1.0 / sqrt(1.0 - pow(settings.beta2, index)));
  }
  /// What a weight keeps of itself.
  __device__ float keep(double decay) const { return (float)(1.0 - rate * decay); }
};

/// The step's numbers, computed once a block. All threads must call it, once.
__device__ inline const AdamStep &sharedStep(const AdamScalars &scalars, const AdamSettings &settings) {
  __shared__ AdamStep step;
  if (threadIdx.x == 0)
    step = AdamStep(scalars, settings);
  __syncthreads();
  return step;
}

struct AdamTensor {
  float *w, *m, *v, *gradient;
  int64 count;
  double decay; // of its settings the others are the same for all tensors of a launch
  int endBlock;
};

/// Blocks take pieces of 16 elements a thread. A norm that is not finite, or no token, leaves w, m and v. The gradient becomes
/// zero; after a norm that is not finite NaN, so that no later step changes anything either before the host has looked.
extern "C" __global__ void adamw(TensorList<AdamTensor> tensors, AdamScalars scalars, AdamSettings settings) {
  const int own = tensors.find();
  float *w = tensors.entry[own].w, *m = tensors.entry[own].m, *v = tensors.entry[own].v,
        *gradient = tensors.entry[own].gradient;
  const int64 piece = (int64)blockDim.x * 16, begin = tensors.blockOf(own) * piece,
              end = min(tensors.entry[own].count, begin + piece);
  const AdamStep &step = sharedStep(scalars, settings);
  const float beta1 = (float)settings.beta1, beta2 = (float)settings.beta2, epsilon = (float)settings.epsilon;
  const float keep = step.keep(tensors.entry[own].decay);
#pragma unroll 2
  for (int64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
    if (step.update) {
      const float g = gradient[i] * step.scale;
      const float newM = fmaf(beta1, m[i], (1.0f - beta1) * g), newV = fmaf(beta2, v[i], (1.0f - beta2) * (g * g));
      m[i] = newM;
      v[i] = newV;
      w[i] = fmaf(-step.corrected, newM / fmaf(sqrtf(newV), step.inverseRoot, epsilon), keep * w[i]);
    }
    gradient[i] = step.rest;
  }
}

/// The same over kept weights; all else becomes zero, the gradient too. With ages (or null) age + 1 takes the step's place, and ramp > 0 damps
/// the first moment by min(age / ramp, 1).
extern "C" __global__ void masked_adamw(float *w, float *m, float *v, float *gradient, const unsigned char *mask, float *age,
                                        AdamScalars scalars, AdamSettings settings, double ramp, int64 count) {
  const AdamStep &step = sharedStep(scalars, settings);
  const float beta1 = (float)settings.beta1, beta2 = (float)settings.beta2, epsilon = (float)settings.epsilon;
  const float keep = step.keep(settings.decay);
  const double rate = step.rate;
#pragma unroll 1
  for (int64 i = globalThread(); i < count; i += globalThreads()) {
    const bool kept = isKept(mask, i);
    if (!kept) {
      w[i] = m[i] = v[i] = 0.0f;
      if (age)
        age[i] = 0.0f;
    } else if (step.update) {
      float corrected = step.corrected, inverseRoot = step.inverseRoot, damping = 1.0f;
      if (age) {
        const float steps = age[i] + 1.0f;
        age[i] = steps;
        corrected = (float)(rate / (1.0 - pow(settings.beta1, (double)steps)));
        inverseRoot = (float)(1.0 / sqrt(1.0 - pow(settings.beta2, (double)steps)));
        damping = ramp > 0 ? (float)min(steps / ramp, 1.0) : 1.0f;
      }
      const float g = gradient[i] * step.scale;
      const float newM = fmaf(beta1, m[i], (1.0f - beta1) * g) * damping,
                  newV = fmaf(beta2, v[i], (1.0f - beta2) * (g * g));
      m[i] = newM;
      v[i] = newV;
      w[i] = fmaf(-corrected, newM / fmaf(sqrtf(newV), inverseRoot, epsilon), keep * w[i]);
    }
    gradient[i] = kept ? step.rest : 0.0f;
  }
}

/// Element i is draw i of the stream whose key is `stream`, under the seed in device memory.
extern "C" __global__ void random_normal(float *y, const int64 *seed, uint64 stream, double mean, double deviation,
                                         int64 count) {
  const uint64 key = (uint64)*seed * 0x9E3779B97F4A7C15ull ^ stream;
  for (int64 i = globalThread(); i < count; i += globalThreads())
    y[i] = (float)(mean + deviation * philoxNormal((uint64)i, 0, key));
}
