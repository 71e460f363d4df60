// What a cubin says of its kernels: registers, memory, and instructions that spill.
#pragma once

#include "runtime/support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::cuda {

struct KernelResources {
  std::string name;
  int64_t registers = 0;   // of one thread
  int64_t sharedBytes = 0; // static, of one block; on sm_90 and later with 1 KiB that the system reserves
  int64_t localBytes = 0;  // stack frame of one thread: arrays with run-time indices, and spilled registers
  int64_t spills = 0;      // instructions that load from or store to local memory
  int64_t maxThreads = 0;  // __launch_bounds__; 0: none given
};

/// Reads a cubin (an ELF file for EM_CUDA), kernels in the file's order. Registers, frame and bounds come
/// from its .nv.info sections (attributes 0x2f, 0x11 and 0x05), shared memory from the size of
/// .nv.shared.NAME, spills from the opcodes of .text.NAME: 16 bytes an instruction since Volta, the low 12
/// bits are the opcode, 0x983 loads from and 0x387 stores to local memory. Error (bad input, naming `place`):
/// not such a file, or one that is cut off.
StatusOr<std::vector<KernelResources>> readCubin(std::string_view bytes, std::string_view place);

} // namespace sluice::cuda
