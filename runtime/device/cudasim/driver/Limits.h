// Limits of an architecture, and what a block takes of them.
#pragma once

#include <cstdint>

namespace sluice::cudasim {

struct ArchitectureLimits {
  int maximumShared;     // bytes of a block, when asked for
  int sharedOfProcessor; // bytes of a multiprocessor
  int threadsOfProcessor;
  int systemShared; // bytes of a block that the system keeps and a cubin counts as the kernel's
};
ArchitectureLimits limitsOf(int architecture);

/// 32-bit registers of a multiprocessor, and the most that one block may take.
constexpr uint64_t kRegistersOfBlock = 65536;

/// Registers that a block of `threads` threads takes: each warp those of 32 threads, in units of 256; and the
/// check at launch assumes that warps come in fours, one for each partition of a multiprocessor (NVIDIA's
/// occupancy calculator, cuda_occupancy.h).
uint64_t registersOfBlock(uint64_t registersOfThread, uint64_t threads);

} // namespace sluice::cudasim
