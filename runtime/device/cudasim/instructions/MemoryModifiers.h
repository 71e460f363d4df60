// Modifiers that loads, stores and atomics share: space, order, cache hints, vector and type.
#pragma once

#include "runtime/device/cudasim/program/Decoder.h"

namespace sluice::cudasim {

struct MemoryModifiers {
  AddressSpace space = AddressSpace::Generic;
  bool isVolatile = false; // volatile, relaxed, acquire, release
  bool acquires = false, releases = false;
  uint32_t elements = 1;
  std::vector<std::string> others; // type and operation, in order
};

/// Sorts the modifiers; hints that only concern speed are dropped.
MemoryModifiers parseMemoryModifiers(const ptx::Instruction &instruction);

} // namespace sluice::cudasim
