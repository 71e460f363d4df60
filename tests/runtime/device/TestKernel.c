/* A kernel library as the code generator makes it, for DeviceTest.cpp: "twice" doubles 100 floats a tile. */
#include "runtime/abi/Kernel.h"

static void twice(void *const *buffers, void *scratch, int64_t tile) {
  const float *x = (const float *)buffers[0];
  float *y = (float *)buffers[1], *copy = (float *)scratch;
  for (int64_t i = 0; i < 100; ++i)
    copy[i] = x[tile * 100 + i];
  for (int64_t i = 0; i < 100; ++i)
    y[tile * 100 + i] = 2.0f * copy[i];
}

static const SluiceKernelEntry entries[] = {{"twice", twice, 400}};
static const SluiceKernelLibrary library = {TEST_ABI_VERSION, SLUICE_CPU_X86_64_V1, 1, entries};

const SluiceKernelLibrary *sluice_kernel_library(void) {
  return &library;
}
