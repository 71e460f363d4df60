// Ranges of a whole tensor against its kept form.
#include "runtime/executor/KeptRange.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

/// Elements 1, 2, 9, 10 and 16 of 20 are kept; in kept form they are 0 to 4.
const std::vector<uint8_t> bits = {0b00000110, 0b00000110, 0b00000001};

TEST(KeptRangeTest, EveryRangeHasItsKeptValues) {
  const std::vector<uint64_t> places = {1, 2, 9, 10, 16};
  for (uint64_t begin = 0; begin <= 20; ++begin)
    for (uint64_t end = begin; end <= 20; ++end) {
      const KeptRange range(bits, begin, end - begin);
      std::vector<float> kept, whole(end - begin), back(end - begin, 7);
      uint64_t before = 0;
      for (uint64_t k = 0; k < places.size(); ++k) {
        before += places[k] < begin;
        if (places[k] < begin || places[k] >= end)
          continue;
        kept.push_back(static_cast<float>(k + 1));
        whole[places[k] - begin] = kept.back();
      }
      EXPECT_EQ(range.first, before) << begin << " " << end;
      EXPECT_EQ(range.count, kept.size()) << begin << " " << end;
      EXPECT_EQ(range.gather(whole.data()), kept);
      range.scatter(kept, back.data());
      EXPECT_EQ(back, whole);
      EXPECT_EQ(range.outside(whole.data()).count, 0u);
    }
}

TEST(KeptRangeTest, ValuesOutsideAreFound) {
  const KeptRange range(bits, 3, 10);
  std::vector<float> whole(10);
  whole[6] = 1; // element 9 is kept
  whole[2] = whole[8] = 5;
  EXPECT_EQ(range.outside(whole.data()).count, 2u);
  EXPECT_EQ(range.outside(whole.data()).first, 2u);
}

} // namespace
} // namespace sluice
