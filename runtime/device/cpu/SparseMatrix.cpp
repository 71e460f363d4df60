#include "runtime/device/cpu/SparseMatrix.h"

#include <algorithm>
#include <bit>

namespace sluice::cpu {

SparseMatrix::SparseMatrix(int64_t outputs, int64_t inputs, int64_t most, int64_t height)
    : outputCount(outputs), inputCount(inputs), entryHeight(height), room(static_cast<size_t>(most)) {
  inputList.reserve(room / static_cast<size_t>(height));
  valueList.reserve(room);
  placeList.reserve(room);
  // A run has an entry at least, and there are no more runs than groups of outputs in all blocks of inputs.
  runList.reserve(static_cast<size_t>(std::min(most, outputs * inputBlocks()) / height));
  keptBefore.reserve(static_cast<size_t>((outputs * inputs + 63) / 64) + 1);
  firstRun.assign(static_cast<size_t>(outputBlocks() * inputBlocks()) + 1, 0);
}

void SparseMatrix::clear() {
  inputList.clear(), valueList.clear(), placeList.clear(), runList.clear();
  std::fill(firstRun.begin(), firstRun.end(), 0);
}

void SparseMatrix::build(const uint64_t *mask, int64_t first, bool transposed) {
  clear();
  auto isKept = [&](int64_t place) { return mask[(first + place) / 64] >> ((first + place) % 64) & 1; };
  // From one output to the next, and from one input to the next.
  const int64_t outputStride = transposed ? 1 : inputCount, inputStride = transposed ? outputCount : 1;
  size_t block = 0;
  for (int64_t top = 0; top < outputCount; top += outputBlock)
    for (int64_t left = 0; left < inputCount; left += inputBlock, ++block) {
      firstRun[block] = static_cast<uint32_t>(runList.size());
      const int64_t bottom = std::min(top + outputBlock, outputCount),
                    right = std::min(left + inputBlock, inputCount);
      for (int64_t output = top; output < bottom; output += entryHeight) {
        const auto begin = static_cast<uint32_t>(inputList.size());
        for (int64_t input = left; input < right; ++input) {
          const int64_t place = output * outputStride + input * inputStride;
          bool whole = placeList.size() + static_cast<size_t>(entryHeight) <= room;
          for (int64_t row = 0; row < entryHeight; ++row)
            whole = whole && isKept(place + row * outputStride);
          if (!whole)
            continue;
          inputList.push_back(static_cast<uint32_t>(input - left));
          for (int64_t row = 0; row < entryHeight; ++row) {
            valueList.push_back(0.0f);
            placeList.push_back(static_cast<uint32_t>(place + row * outputStride));
          }
        }
        const auto end = static_cast<uint32_t>(inputList.size());
        if (end > begin)
          runList.push_back({static_cast<uint32_t>(output), begin, end});
      }
    }
  firstRun[block] = static_cast<uint32_t>(runList.size());
}

void SparseMatrix::useKeptForm(const uint64_t *mask, int64_t first) {
  // The kept weights before each word, so that a place is one sum and one count of bits.
  const int64_t size = outputCount * inputCount, words = (first + size + 63) / 64 - first / 64;
  std::vector<uint32_t> &before = keptBefore;
  before.assign(static_cast<size_t>(words), 0);
  const uint64_t *begin = mask + first / 64;
  const uint64_t lead = (uint64_t{1} << (first % 64)) - 1; // bits of a neighbour
  for (int64_t word = 1; word < words; ++word)
    before[static_cast<size_t>(word)] =
        before[static_cast<size_t>(word - 1)] +
        static_cast<uint32_t>(std::popcount(begin[word - 1] & (word == 1 ? ~lead : ~uint64_t{0})));
  for (uint32_t &place : placeList) {
    const int64_t bit = first % 64 + place, word = bit / 64;
    const uint64_t below = (uint64_t{1} << (bit % 64)) - 1;
    place = before[static_cast<size_t>(word)] +
            static_cast<uint32_t>(std::popcount(begin[word] & below & (word == 0 ? ~lead : ~uint64_t{0})));
  }
}

void SparseMatrix::refresh(const float *weight) {
  for (size_t i = 0; i < valueList.size(); ++i)
    valueList[i] = weight[placeList[i]];
}

} // namespace sluice::cpu
