/* The kernel ABI: what generated code and the runtime agree on. No dependencies; C and C++.
 *
 * A generated kernel computes one tile of a command. It reads and writes only the buffers it is given, keeps
 * no state, allocates nothing and calls nothing. Buffers come in the order of the command's inputs, then
 * outputs.
 *
 * A compiled kernel library exports one symbol, SLUICE_KERNEL_LIBRARY_QUERY, which returns its table. */
#ifndef SLUICE_RUNTIME_ABI_KERNEL_H
#define SLUICE_RUNTIME_ABI_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a structure or a rule of this header changes. */
#define SLUICE_KERNEL_ABI_VERSION 1u

/* Instruction set levels of x86-64 (the System V psABI's names), checked against the host at load. */
enum SluiceCpuLevel {
  SLUICE_CPU_X86_64_V1 = 1, /* SSE2 */
  SLUICE_CPU_X86_64_V3 = 3, /* AVX2, FMA, BMI2 */
  SLUICE_CPU_X86_64_V4 = 4, /* AVX-512 F, BW, CD, DQ, VL */
};

/* Computes tile `tile` of the command. `buffers` holds one pointer a buffer, 64-byte aligned; `scratch` is
 * the worker's private memory, at least as large as the table entry asks for, 64-byte aligned, contents
 * undefined. */
typedef void (*SluiceKernelFunction)(void *const *buffers, void *scratch, int64_t tile);

typedef struct SluiceKernelEntry {
  const char *name; /* the symbol that commands name */
  SluiceKernelFunction function;
  uint64_t scratch_bytes; /* private memory a worker needs */
} SluiceKernelEntry;

typedef struct SluiceKernelLibrary {
  uint32_t abi_version; /* SLUICE_KERNEL_ABI_VERSION of the compiler */
  uint32_t cpu_level;   /* enum SluiceCpuLevel */
  uint64_t entry_count;
  const SluiceKernelEntry *entries;
} SluiceKernelLibrary;

#define SLUICE_KERNEL_LIBRARY_QUERY "sluice_kernel_library"
typedef const SluiceKernelLibrary *(*SluiceKernelLibraryQuery)(void);

#ifdef __cplusplus
}
static_assert(sizeof(SluiceKernelEntry) == 24 && sizeof(SluiceKernelLibrary) == 24,
              "the kernel ABI's structures have a fixed layout");
#endif

#endif
