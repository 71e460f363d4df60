#include "runtime/device/Arguments.h"
#include "runtime/device/cpu/DerivedState.h"
#include "runtime/device/cpu/KernelImages.h"
#include "runtime/device/cpu/Kernels.h"

namespace sluice::cpu {

StatusOr<PreparedKernel> prepareLaunch(PrepareContext &context) {
  Arguments arguments(context);
  const std::string name = arguments.text("kernel");
  const int64_t tiles = arguments.integer("tiles", 0, int64_t{1} << 40);
  auto buffers = std::make_shared<std::vector<void *>>();
  for (size_t i = 0; i < arguments.inputCount(); ++i)
    buffers->push_back(arguments.anyInput(i).data);
  for (size_t i = 0; i < arguments.outputCount(); ++i)
    buffers->push_back(arguments.anyOutput(i).data);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  auto found = context.kernels.find(name);
  if (found == context.kernels.end())
    return badInputError("kernel '", name, "' of '", context.command.origin, "' is in no loaded image");
  PreparedKernel kernel;
  kernel.scratchBytes = found->second.scratchBytes;
  kernel.stages.push_back({tiles, [buffers, function = found->second.function](const Tile &tile) {
                             function(buffers->data(), tile.scratch, tile.index);
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareRefreshDerivedState(PrepareContext &context) {
  DerivedState *derived = &context.derived;
  PreparedKernel kernel;
  kernel.stages.push_back({0, [derived](const Tile &tile) { derived->refresh(tile.index, tile.worker); },
                           [derived] { return derived->tiles(); }});
  return kernel;
}

} // namespace sluice::cpu
