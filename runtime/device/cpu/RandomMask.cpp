#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"
#include "runtime/support/Philox.h"

namespace sluice::cpu {

StatusOr<PreparedKernel> prepareRandomMask(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor seed = arguments.input(0, ElementType::I64), mask = arguments.output(0, ElementType::U8);
  arguments.elements(seed, 1, "the seed");
  const uint64_t key = streamKey(arguments.text("stream"));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  SLUICE_ASSIGN_OR_RETURN(const MaskShape shape, maskShape(arguments));
  arguments.elements(mask, maskBytes(shape.matrices * shape.pattern.size()), "the mask");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  PreparedKernel kernel;
  kernel.workspaceBytes = static_cast<uint64_t>(shape.pattern.units()) * 8;
  // One tile: matrices share bytes of the mask where their size is no multiple of 8, and this runs once.
  kernel.stages.push_back({1, [=](const Tile &tile) {
                             drawMask(shape.pattern, shape.matrices, *seed.as<int64_t>(), key,
                                      mask.as<uint8_t>(), reinterpret_cast<uint64_t *>(tile.workspace));
                           }});
  return kernel;
}

} // namespace sluice::cpu
