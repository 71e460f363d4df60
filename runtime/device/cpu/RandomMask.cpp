#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/Mask.h"
#include "runtime/support/Philox.h"

#include <charconv>
#include <optional>

namespace sluice::cpu {
namespace {

/// What one choice chooses from: `group` neighbours, in blocks of rows x columns of which `keep` stay.
struct Pattern {
  int64_t group, keep, rows = 1, columns = 1;
};

/// "2:4", "16x16": two positive integers around the separator.
bool readPair(std::string_view text, char separator, int64_t &first, int64_t &second) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos)
    return false;
  const char *middle = text.data() + at, *end = text.data() + text.size();
  return std::from_chars(text.data(), middle, first).ptr == middle &&
         std::from_chars(middle + 1, end, second).ptr == end && first > 0 && second > 0;
}

/// Nullopt for a pattern that does not fit matrices of `rows` x `columns`.
std::optional<Pattern> readPattern(std::string_view text, int64_t rows, int64_t columns, int64_t kept) {
  Pattern pattern{rows * columns, kept};
  constexpr std::string_view block = "block:";
  if (text == "unstructured")
    return pattern;
  if (text.substr(0, block.size()) == block) {
    if (!readPair(text.substr(block.size()), 'x', pattern.rows, pattern.columns) ||
        rows % pattern.rows != 0 || columns % pattern.columns != 0 ||
        kept % (pattern.rows * pattern.columns) != 0)
      return std::nullopt;
    pattern.keep = kept / (pattern.rows * pattern.columns);
    return pattern;
  }
  if (!readPair(text, ':', pattern.keep, pattern.group) || pattern.keep > pattern.group ||
      columns % pattern.group != 0)
    return std::nullopt;
  return pattern;
}

} // namespace

StatusOr<PreparedKernel> prepareRandomMask(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor seed = arguments.input(0, ElementType::I64), mask = arguments.output(0, ElementType::U8);
  arguments.elements(seed, 1, "the seed");
  const uint64_t key = streamKey(arguments.text("stream"));
  std::vector<int64_t> shape;
  for (double size : arguments.numbers("shape"))
    shape.push_back(static_cast<int64_t>(size));
  arguments.require(shape.size() == 2 || shape.size() == 3, "shape must be [out, in] or [experts, out, in]");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t rows = shape[shape.size() - 2], width = shape.back(),
                matrices = shape.size() == 3 ? shape[0] : 1;
  constexpr int64_t most = int64_t{1} << 31;
  arguments.require(rows > 0 && width > 0 && matrices > 0 && rows < most / width && matrices < most / width,
                    "shape must be of positive sizes, at most 2^31 weights a matrix");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t size = rows * width, kept = arguments.integer("kept", 1, size);
  arguments.elements(mask, maskBytes(size * matrices), "the mask");
  const std::optional<Pattern> pattern = readPattern(arguments.text("pattern"), rows, width, kept);
  arguments.require(pattern.has_value(), "pattern must be unstructured, n:m or block:RxC and fit the shape");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  PreparedKernel kernel;
  kernel.workspaceBytes = static_cast<uint64_t>(size) * 8;
  // One tile: matrices share bytes of the mask where their size is no multiple of 8, and this runs once.
  kernel.stages.push_back(
      {1, [=, pattern = *pattern](const Tile &tile) {
         auto *bits = mask.as<uint8_t>();
         auto *candidates = reinterpret_cast<uint64_t *>(tile.workspace);
         const PhiloxStream stream(static_cast<uint64_t>(*seed.as<int64_t>()), key);
         std::fill_n(bits, mask.elements, uint8_t{0});
         for (int64_t begin = 0; begin < size * matrices; begin += pattern.group) {
           int64_t total = 0;
           for (int64_t i = 0; i < pattern.group; ++i)
             if ((begin + i) / width % pattern.rows == 0 && (begin + i) % width % pattern.columns == 0)
               candidates[total++] = candidate(stream.bits(static_cast<uint64_t>(begin + i)), i);
           selectSmallest(candidates, pattern.keep, total);
           for (int64_t k = 0; k < pattern.keep; ++k)
             for (int64_t row = 0; row < pattern.rows; ++row)
               for (int64_t column = 0; column < pattern.columns; ++column)
                 setKept(bits, begin + candidateIndex(candidates[k]) + row * width + column, true);
         }
       }});
  return kernel;
}

} // namespace sluice::cpu
