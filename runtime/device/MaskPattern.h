// Which sets of weights a mask may keep, and the draw of a random one: one meaning for devices and for
// readers of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

/// Bytes of a mask of `weights` weights: one bit a weight, up to a multiple of 8.
constexpr int64_t maskBytes(int64_t weights) {
  return (weights + 63) / 64 * 8;
}

/// A pattern for matrices of `rows` x `columns` of which `kept` weights stay. Weights are chosen in units:
/// one weight, or a block of blockRows x blockColumns, named by its first weight. Each group of `group`
/// neighbours (a whole matrix, or m weights of an n:m pattern) keeps `keep` units.
struct MaskPattern {
  int64_t rows = 1, columns = 1, kept = 1;
  int64_t group = 1, keep = 1;
  int64_t blockRows = 1, blockColumns = 1;

  /// "unstructured", "n:m" (n of each m neighbours along a row; `kept` may be more where masks start with
  /// more weights) or "block:RxC". Nullopt for a text that is none of these or does not fit the sizes.
  static std::optional<MaskPattern> read(std::string_view text, int64_t rows, int64_t columns, int64_t kept);

  int64_t size() const { return rows * columns; }
  int64_t blockSize() const { return blockRows * blockColumns; }
  /// Units of a matrix.
  int64_t units() const { return size() / blockSize(); }
  bool isBlocks() const { return blockSize() > 1; }
  bool isGroups() const { return group != size(); }
  /// The first weight of unit `unit`, inside its matrix.
  int64_t firstWeight(int64_t unit) const {
    if (!isBlocks())
      return unit;
    const int64_t across = columns / blockColumns;
    return unit / across * blockRows * columns + unit % across * blockColumns;
  }
};

/// Draws the mask that the op random_mask means (docs/dialects/sluice.md) for `matrices` matrices into
/// `bits`, maskBytes(matrices x size) bytes. `candidates` has room for pattern.size() numbers.
void drawMask(const MaskPattern &pattern, int64_t matrices, int64_t seed, uint64_t stream, uint8_t *bits,
              uint64_t *candidates);

} // namespace sluice
