#include "runtime/device/cudasim/driver/Limits.h"

namespace sluice::cudasim {

ArchitectureLimits limitsOf(int architecture) {
  // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
  switch (architecture) {
  case 75:
    return {64 * 1024, 64 * 1024, 1024, 0};
  case 80:
  case 87:
    return {163 * 1024, 164 * 1024, 2048, 0};
  case 86:
  case 89:
  case 120:
  case 121:
    return {99 * 1024, 100 * 1024, 1536, architecture >= 90 ? 1024 : 0};
  default: // 90, 100, 103, 110
    return {227 * 1024, 228 * 1024, 2048, 1024};
  }
}

uint64_t registersOfBlock(uint64_t registersOfThread, uint64_t threads) {
  const uint64_t warp = (32 * registersOfThread + 255) / 256 * 256;
  const uint64_t warps = (threads + 31) / 32;
  return warp * ((warps + 3) / 4 * 4);
}

} // namespace sluice::cudasim
