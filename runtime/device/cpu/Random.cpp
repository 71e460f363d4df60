#include "runtime/device/Arguments.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/support/Philox.h"

namespace sluice::cpu {

// Initial values: element i is draw i of the stream that carries the parameter's name, whatever its shape or
// place.
StatusOr<PreparedKernel> prepareRandomNormal(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor seed = arguments.input(0, ElementType::I64), y = arguments.output(0);
  const uint64_t key = streamKey(arguments.text("stream"));
  const double mean = arguments.number("mean"), deviation = arguments.number("standard_deviation");
  arguments.elements(seed, 1, "the seed");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(y.elements, 1 << 13, [=](int64_t begin, int64_t end) {
    const PhiloxStream stream(static_cast<uint64_t>(*seed.as<int64_t>()), key);
    for (int64_t i = begin; i < end; ++i)
      y.f32()[i] = static_cast<float>(mean + deviation * stream.normal(static_cast<uint64_t>(i)));
  }));
  return kernel;
}

} // namespace sluice::cpu
