#include "runtime/device/MaskPattern.h"

#include "runtime/support/Philox.h"

#include <algorithm>
#include <charconv>

namespace sluice {
namespace {

/// "2:4", "16x16": two positive integers around the separator.
bool readPair(std::string_view text, char separator, int64_t &first, int64_t &second) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos)
    return false;
  const char *middle = text.data() + at, *end = text.data() + text.size();
  return std::from_chars(text.data(), middle, first).ptr == middle &&
         std::from_chars(middle + 1, end, second).ptr == end && first > 0 && second > 0;
}

} // namespace

std::optional<MaskPattern> MaskPattern::read(std::string_view text, int64_t rows, int64_t columns,
                                             int64_t kept) {
  MaskPattern pattern;
  pattern.rows = rows, pattern.columns = columns, pattern.kept = pattern.keep = kept;
  pattern.group = rows * columns;
  if (kept < 1 || kept > pattern.size())
    return std::nullopt;
  constexpr std::string_view block = "block:";
  if (text == "unstructured")
    return pattern;
  if (text.substr(0, block.size()) == block) {
    if (!readPair(text.substr(block.size()), 'x', pattern.blockRows, pattern.blockColumns) ||
        rows % pattern.blockRows != 0 || columns % pattern.blockColumns != 0 ||
        kept % pattern.blockSize() != 0)
      return std::nullopt;
    pattern.keep = kept / pattern.blockSize();
    return pattern;
  }
  int64_t n = 0, m = 0;
  if (!readPair(text, ':', n, m) || n > m || columns % m != 0 || kept % (pattern.size() / m) != 0)
    return std::nullopt;
  pattern.group = m, pattern.keep = kept / (pattern.size() / m);
  return pattern.keep < n ? std::nullopt : std::optional(pattern);
}

void drawMask(const MaskPattern &pattern, int64_t matrices, int64_t seed, uint64_t stream, uint8_t *bits,
              uint64_t *candidates) {
  const PhiloxStream draws(static_cast<uint64_t>(seed), stream);
  const int64_t width = pattern.columns, unitsOfGroup = pattern.group / pattern.blockSize();
  std::fill_n(bits, maskBytes(matrices * pattern.size()), uint8_t{0});
  for (int64_t begin = 0; begin < matrices * pattern.size(); begin += pattern.group) {
    // The smallest pairs of (draw, index) stay.
    for (int64_t unit = 0; unit < unitsOfGroup; ++unit) {
      const int64_t at = pattern.firstWeight(unit);
      candidates[unit] =
          uint64_t{draws.bits(static_cast<uint64_t>(begin + at))} << 32 | static_cast<uint32_t>(at);
    }
    if (pattern.keep < unitsOfGroup)
      std::nth_element(candidates, candidates + pattern.keep, candidates + unitsOfGroup);
    for (int64_t k = 0; k < pattern.keep; ++k)
      for (int64_t row = 0; row < pattern.blockRows; ++row)
        for (int64_t column = 0; column < pattern.blockColumns; ++column) {
          const int64_t at =
              begin + static_cast<int64_t>(static_cast<uint32_t>(candidates[k])) + row * width + column;
          bits[at >> 3] = static_cast<uint8_t>(bits[at >> 3] | 1u << (at & 7));
        }
  }
}

} // namespace sluice
