// What a command would launch, without a device: for reports on executables.
#pragma once

#include "runtime/device/cuda/Kernel.h"

namespace sluice::cuda {

struct CommandLaunches {
  std::vector<Launch> launches;
  uint64_t workspaceBytes = 0;
};

/// The launches of each command over arenas of these sizes, when all run one after the other: neighbours may
/// share one (TensorList.h), which is then the first one's. Pointers among their parameters mean nothing;
/// whether cuBLASLt takes a product over is decided by a real device. Errors: as Device::prepare.
StatusOr<std::vector<CommandLaunches>> planLaunches(absl::Span<const Command> commands,
                                                    absl::Span<const uint64_t> arenaBytes);

} // namespace sluice::cuda
