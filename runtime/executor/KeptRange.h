// A range of a whole tensor against its kept form: the values that a mask keeps, in row-major order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Elements [begin, begin + size) of the whole tensor, of which `count` are kept, from `first` on in kept
/// form.
class KeptRange {
public:
  /// Bit i % 8 of byte i / 8 of `bits` says whether element i is kept.
  KeptRange(const std::vector<uint8_t> &bits, uint64_t begin, uint64_t size) : size(size) {
    for (uint64_t byte = 0; byte < begin / 8; ++byte)
      first += static_cast<uint64_t>(std::popcount(bits[byte]));
    for (uint64_t i = begin / 8 * 8; i < begin; ++i)
      first += isKept(bits, i);
    for (uint64_t i = begin; i < begin + size; ++i)
      if (isKept(bits, i))
        places.push_back(i - begin);
    count = places.size();
  }

  /// Writes `size` elements: the kept values at their places, zeros elsewhere.
  void scatter(const std::vector<float> &kept, float *whole) const {
    for (uint64_t i = 0; i < size; ++i)
      whole[i] = 0;
    for (size_t i = 0; i < places.size(); ++i)
      whole[places[i]] = kept[i];
  }
  /// The kept ones of `size` elements.
  std::vector<float> gather(const float *whole) const {
    std::vector<float> kept;
    kept.reserve(places.size());
    for (uint64_t place : places)
      kept.push_back(whole[place]);
    return kept;
  }

  /// Of `size` elements, those that are not kept and not zero: how many, and the first.
  struct Outside {
    uint64_t count = 0, first = 0;
  };
  Outside outside(const float *whole) const {
    Outside found;
    size_t next = 0;
    for (uint64_t i = 0; i < size; ++i)
      if (next < places.size() && places[next] == i)
        ++next;
      else if (whole[i] != 0 && found.count++ == 0)
        found.first = i;
    return found;
  }

  uint64_t first = 0, count = 0;

private:
  static bool isKept(const std::vector<uint8_t> &bits, uint64_t i) {
    return (bits[i / 8] >> (i % 8) & 1) != 0;
  }

  uint64_t size;
  std::vector<uint64_t> places;
};

} // namespace sluice
