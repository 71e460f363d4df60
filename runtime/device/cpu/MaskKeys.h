// The orders in which an update of a mask drops and grows weights: a key a unit (a weight or a block), the
// smallest first.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace sluice::cpu {

/// Bits of |x|, which order as the numbers do; NaN as infinity.
inline uint64_t magnitudeKey(float x) {
  return std::min(std::bit_cast<uint32_t>(x) & 0x7fffffffu, 0x7f800000u);
}
/// The same of a sum of squares.
inline uint64_t magnitudeKey(double x) {
  constexpr uint64_t infinity = uint64_t{0x7ff} << 52;
  return std::min(std::bit_cast<uint64_t>(x) & ~(uint64_t{1} << 63), infinity);
}
/// The other way round: large magnitudes first, then zeros in the order of `draw`, whose 30 upper bits count
/// (an expert without rows has no gradient to choose by), NaN last.
inline uint64_t descendingKey(float x, uint32_t draw) {
  if (x == 0)
    return uint64_t{0x80000000u} + (draw >> 2);
  return std::isnan(x) ? ~uint32_t{0} : 0x7f800000u - magnitudeKey(x);
}
inline uint64_t descendingKey(double x, uint32_t draw) {
  constexpr uint64_t infinity = uint64_t{0x7ff} << 52;
  if (x == 0)
    return infinity + (draw >> 2);
  return std::isnan(x) ? ~uint64_t{0} : infinity - magnitudeKey(x);
}

/// Candidates with keys of 32 bits: one number each.
class ShortCandidates {
public:
  static constexpr int64_t bytes = 8;
  explicit ShortCandidates(void *room) : list(static_cast<uint64_t *>(room)) {}
  void clear() { count = 0; }
  int64_t size() const { return count; }
  void add(uint64_t key, int64_t unit) { list[count++] = key << 32 | static_cast<uint32_t>(unit); }
  /// Moves the `wanted` smallest pairs of (key, unit) to the front.
  void select(int64_t wanted) {
    if (wanted > 0 && wanted < count)
      std::nth_element(list, list + wanted, list + count);
  }
  int64_t unit(int64_t k) const { return static_cast<int64_t>(static_cast<uint32_t>(list[k])); }

private:
  uint64_t *list;
  int64_t count = 0;
};

/// Candidates with keys of 64 bits.
class LongCandidates {
public:
  static constexpr int64_t bytes = 16;
  explicit LongCandidates(void *room) : list(static_cast<std::pair<uint64_t, int64_t> *>(room)) {}
  void clear() { count = 0; }
  int64_t size() const { return count; }
  void add(uint64_t key, int64_t unit) { list[count++] = {key, unit}; }
  void select(int64_t wanted) {
    if (wanted > 0 && wanted < count)
      std::nth_element(list, list + wanted, list + count);
  }
  int64_t unit(int64_t k) const { return list[k].second; }

private:
  std::pair<uint64_t, int64_t> *list;
  int64_t count = 0;
};

} // namespace sluice::cpu
