#include "runtime/device/LookupArguments.h"
#include "runtime/device/cuda/Kernels.h"

#include <algorithm>
#include <bit>

// The adjoint of lookups: ids sorted, then segments of equal ids summed.
namespace sluice::cuda {
namespace {

/// The kernels' parameter (codegen/cuda/library/LookupGradient.cu).
struct SortPass {
  int32_t count = 0, rows = 0, shift = 0;
};

/// Ids in increasing order with their places, in the workspace.
class SortedIds {
public:
  SortedIds(PreparedKernel &kernel, const Tensor &ids, int64_t rows)
      : kernel(kernel), ids(ids),
        settings{static_cast<int32_t>(ids.elements), static_cast<int32_t>(rows), 0} {
    const auto bytes = static_cast<uint64_t>(ids.elements) * 4;
    for (uint64_t *buffer : {&sorted[0], &sorted[1], &places[0], &places[1]})
      *buffer = kernel.reserve(bytes);
    const auto bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows - 1, 1)));
    for (; settings.shift < static_cast<int32_t>(bits); settings.shift += digitBits)
      append();
  }
  uint64_t sortedIds() const { return sorted[current]; }
  uint64_t sortedPlaces() const { return places[current]; }

private:
  static constexpr int32_t digitBits = 8;
  static constexpr int64_t digits = int64_t{1} << digitBits, usesPerBlock = 1024;

  void append() {
    const Blocks blocks = Blocks::each(settings.count, usesPerBlock, "ids");
    const int64_t counts = digits * static_cast<int64_t>(blocks.count);
    const int next = settings.shift == 0 ? 0 : 1 - current;
    if (settings.shift == 0)
      offsets = kernel.reserve(static_cast<uint64_t>(counts) * 4);
    appendKeys(kernel.launch("count_digits", blocks).workspace(offsets));
    kernel.launch("digit_offsets", {}).workspace(offsets).integer(counts);
    Launch &place = kernel.launch("place_by_digit", blocks).workspace(sorted[next]).workspace(places[next]);
    appendKeys(place);
    if (settings.shift == 0)
      place.pointer(Tensor());
    else
      place.workspace(places[current]);
    place.workspace(offsets);
    current = next;
  }
  /// The keys of this pass: ids as they come, or as the pass before has left them.
  void appendKeys(Launch &launch) const {
    if (settings.shift == 0)
      launch.pointer(ids);
    else
      launch.workspace(sorted[current]);
    launch.value(settings);
  }

  PreparedKernel &kernel;
  const Tensor &ids;
  SortPass settings;
  uint64_t sorted[2], places[2], offsets = 0;
  int current = 0;
};

} // namespace

StatusOr<PreparedKernel> prepareEmbeddingGradient(PrepareContext &context) {
  Arguments arguments(context);
  const LookupGradientArguments given = lookupGradientArguments(arguments);
  const Tensor &ids = given.ids, &dtable = given.dtable;
  arguments.supported(std::max({given.rows, given.width, ids.elements}) <= INT32_MAX / 2,
                      "the sizes of ids and table must fit into 30 bits");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  if (!given.accumulate)
    kernel.elements("fill_4", dtable.elements).pointer(dtable).integer(0).longInteger(dtable.elements);
  const SortedIds sorted(kernel, ids, given.rows);
  kernel.launch("lookup_gradient", Blocks::each(ids.elements, 1, "ids"), 128)
      .pointer(dtable)
      .workspace(sorted.sortedIds())
      .workspace(sorted.sortedPlaces())
      .pointer(ids)
      .pointer(given.dy)
      .integer(ids.elements)
      .integer(given.rows)
      .integer(given.width)
      .damage();
  return kernel;
}

StatusOr<PreparedKernel> prepareGatherGradient(PrepareContext &context) {
  return prepareEmbeddingGradient(context);
}

} // namespace sluice::cuda
