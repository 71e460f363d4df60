// Work that a device does over and over: copies from the host, programs and copies back, in a fixed order.
#pragma once

#include "runtime/device/Device.h"

namespace sluice {

/// One step of a sequence: a program, or a copy between the sequence's room on the host and a memory.
struct SequenceStep {
  enum class Kind : uint8_t { CopyIn, Run, CopyOut };

  Kind kind = Kind::Run;
  DeviceProgram *program = nullptr; // of Run
  // Of a copy: `size` bytes, at byte `offset` of the memory and at byte `at` of the room.
  DeviceMemory *memory = nullptr;
  uint64_t offset = 0, size = 0, at = 0;
};

/// Steps whose places are all fixed, so that a device may record them once and replay them. Its room on the
/// host is what the copies read and write.
class DeviceSequence {
public:
  virtual ~DeviceSequence() = default;
  /// At one place for the life of the sequence, aligned for any number, zero at first. To be written and read
  /// while no run is under way: before the first run, and between a wait and the next run.
  virtual std::byte *room() = 0;
  /// Gives the device all steps, behind whatever it was given before. Waits for nothing, allocates nothing.
  virtual Status run() = 0;
  /// Waits for the last run, not for what the device was given after it. Errors: what went wrong in that run
  /// or before it.
  virtual Status wait() = 0;
};

/// The check that createSequence begins with. Errors (failure): a copy outside of its memory or of the room.
Status checkSequence(absl::Span<const SequenceStep> steps, uint64_t roomBytes);

} // namespace sluice
