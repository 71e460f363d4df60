#include "runtime/device/Sequence.h"

namespace sluice {
namespace {

/// Runs its steps one after the other, each to its end.
class HostSequence final : public DeviceSequence {
public:
  HostSequence(absl::Span<const SequenceStep> steps, uint64_t roomBytes)
      : steps(steps.begin(), steps.end()), bytes(roomBytes) {}

  std::byte *room() override { return bytes.data(); }

  Status run() override {
    for (const SequenceStep &step : steps)
      switch (step.kind) {
      case SequenceStep::Kind::CopyIn:
        SLUICE_RETURN_IF_ERROR(step.memory->write(step.offset, bytes.data() + step.at, step.size));
        break;
      case SequenceStep::Kind::Run:
        SLUICE_RETURN_IF_ERROR(step.program->execute());
        break;
      case SequenceStep::Kind::CopyOut:
        SLUICE_RETURN_IF_ERROR(step.memory->read(step.offset, bytes.data() + step.at, step.size));
        break;
      }
    return absl::OkStatus();
  }

  Status wait() override { return absl::OkStatus(); }

private:
  std::vector<SequenceStep> steps;
  std::vector<std::byte> bytes;
};

} // namespace

Status checkSequence(absl::Span<const SequenceStep> steps, uint64_t roomBytes) {
  for (const SequenceStep &step : steps) {
    if (step.kind == SequenceStep::Kind::Run)
      continue;
    const uint64_t length = step.memory->bytes();
    if (step.offset > length || step.size > length - step.offset || step.at > roomBytes ||
        step.size > roomBytes - step.at)
      return failure("cannot copy ", step.size, " bytes between offset ", step.offset, " of a memory of ",
                     length, " bytes and byte ", step.at, " of ", roomBytes, " on the host");
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<DeviceSequence>>
Device::createSequence(std::string, absl::Span<const SequenceStep> steps, uint64_t roomBytes) {
  SLUICE_RETURN_IF_ERROR(checkSequence(steps, roomBytes));
  return std::unique_ptr<DeviceSequence>(std::make_unique<HostSequence>(steps, roomBytes));
}

} // namespace sluice
