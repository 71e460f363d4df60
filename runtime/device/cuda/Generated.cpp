#include "runtime/device/cuda/Kernels.h"

// Generated kernels, and derived state, of which this device has none.
namespace sluice::cuda {

StatusOr<PreparedKernel> prepareLaunch(PrepareContext &context) {
  Arguments arguments(context);
  const std::string name = arguments.text("kernel"), shape = arguments.text("domain");
  const int64_t rows = arguments.integer("rows", 0, int64_t{1} << 42),
                columns = arguments.integer("columns", 0, int64_t{1} << 42);
  std::vector<Tensor> buffers;
  buffers.reserve(arguments.inputCount() + arguments.outputCount());
  for (size_t i = 0; i < arguments.inputCount(); ++i)
    buffers.push_back(arguments.anyInput(i));
  for (size_t i = 0; i < arguments.outputCount(); ++i)
    buffers.push_back(arguments.anyOutput(i));
  arguments.require(shape == "line" || shape == "rows" || shape == "columns",
                    "attribute 'domain' must be line, rows or columns");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  // A line is walked by a grid-stride loop, four elements a thread where its length is a multiple of four; a
  // row is a block's; 32 columns are a block's, by 8 rows side by side.
  Launch &launch = shape == "line"   ? kernel.elements(name, rows * columns, rows * columns % 4 == 0 ? 4 : 1)
                   : shape == "rows" ? kernel.launch(name, Blocks::each(rows, 1, "rows"),
                                                     columns > 128  ? 256
                                                     : columns > 32 ? 128
                                                                    : 32)
                                     : kernel.launch(name, Blocks::each(columns, 32, "columns"));
  for (const Tensor &buffer : buffers)
    launch.pointer(buffer);
  return kernel;
}

StatusOr<PreparedKernel> prepareRefreshDerivedState(PrepareContext &) {
  return PreparedKernel{};
}

} // namespace sluice::cuda
