#include "runtime/device/cuda/LaunchPlan.h"

#include "runtime/device/cuda/TensorList.h"

#include <cstdlib>

namespace sluice::cuda {
namespace {

/// A driver whose calls succeed and do nothing, but for memory of the host, which is real.
std::shared_ptr<const Driver> idleDriver() {
  auto driver = std::make_shared<Driver>();
#define SLUICE_CUDA_IDLE(member, function) driver->member = [](auto...) -> CUresult { return CUDA_SUCCESS; };
  SLUICE_CUDA_DRIVER(SLUICE_CUDA_IDLE)
#undef SLUICE_CUDA_IDLE
  driver->deviceGetCount = [](int *count) -> CUresult {
    *count = 1;
    return CUDA_SUCCESS;
  };
  driver->hostAllocate = [](void **pointer, size_t bytes, unsigned) -> CUresult {
    *pointer = std::calloc(bytes, 1);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  };
  driver->hostFree = [](void *pointer) -> CUresult {
    std::free(pointer);
    return CUDA_SUCCESS;
  };
  driver->blasLibrary = "none";
  return driver;
}

/// An arena that has a size and places, but no contents.
class PlacesOnly final : public DeviceMemory {
public:
  PlacesOnly(uint64_t start, uint64_t length) : start(start), length(length) {}
  uint64_t bytes() const override { return length; }
  std::byte *address() const override { return reinterpret_cast<std::byte *>(start); }
  Status write(uint64_t, const void *, uint64_t) override { return failure("this memory has no contents"); }
  Status read(uint64_t, void *, uint64_t) const override { return failure("this memory has no contents"); }

private:
  uint64_t start, length;
};

} // namespace

StatusOr<std::vector<CommandLaunches>> planLaunches(absl::Span<const Command> commands,
                                                    absl::Span<const uint64_t> arenaBytes) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Context> context, Context::create(idleDriver(), 0));
  std::vector<PlacesOnly> arenas;
  uint64_t start = 4096;
  for (uint64_t bytes : arenaBytes) {
    arenas.emplace_back(start, bytes);
    start += (bytes + 255) / 256 * 256;
  }
  std::vector<DeviceMemory *> places;
  places.reserve(arenas.size());
  for (PlacesOnly &arena : arenas)
    places.push_back(&arena);
  std::vector<CommandLaunches> planned;
  std::vector<std::vector<Launch>> launches;
  for (const Command &command : commands) {
    const PrepareFunction prepare = findKernel(command.kind);
    if (!prepare)
      return badInputError("command ", command.kind, " of '", command.origin,
                           "': no kernel for it on CUDA; compile the executable again with this version");
    PrepareContext prepareContext{{command, places}, context};
    SLUICE_ASSIGN_OR_RETURN(PreparedKernel kernel, prepare(prepareContext));
    planned.push_back({{}, kernel.workspaceBytes});
    launches.push_back(std::move(kernel.launches));
  }
  JoinedLaunches joined = joinNeighbours(std::move(launches));
  for (size_t index = 0; index < planned.size(); ++index)
    planned[index].launches = std::move(joined.launches[index]);
  return planned;
}

} // namespace sluice::cuda
