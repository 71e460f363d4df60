// A masked weight as its kept entries, in the order in which the products that skip zeros read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::cpu {

/// One kept weight: the input that it multiplies, counted from the first of its block of inputs, and its
/// value. Side by side because a product needs both at once.
struct SparseEntry {
  uint32_t input;
  float value;
};

/// The entries of one output within one block of inputs, [begin, end) of SparseMatrix::entries.
struct SparseRun {
  uint32_t output, begin, end;
};

/// The kept entries of a matrix that maps inputs to outputs, grouped by blocks of outputs, within these by
/// blocks of inputs, and within these by output; the inputs of a run ascend. So a sum over inputs has one
/// order. Built anew when the mask changes; `refresh` copies values.
class SparseMatrix {
public:
  /// Blocks of inputs are as wide as the first-level cache holds for one panel of tokens, blocks of outputs
  /// as high as the second-level cache holds.
  static constexpr int64_t inputBlock = 64, outputBlock = 512;

  /// Room for `most` entries at any time, so that `build` allocates nothing. Sizes are below 2^31.
  SparseMatrix(int64_t outputs, int64_t inputs, int64_t most);

  /// Takes the entries of the row-major weight [outputs, inputs] that `mask` keeps, or with `transposed` of
  /// the weight [inputs, outputs]. Bit first + i of the mask, in word (first + i) / 64, is the element with
  /// row-major index i. Entries without room are left out: a mask from outside must not reach further.
  void build(const uint64_t *mask, int64_t first, bool transposed);
  /// Drops all entries.
  void clear();
  /// The same where the weight is in kept form: the kept values alone, in row-major order. `places` then are
  /// places in that form.
  void useKeptForm(const uint64_t *mask, int64_t first);
  /// Copies the values of the kept entries from the weight, stored as `build` or `useKeptForm` take it.
  void refresh(const float *weight);

  int64_t outputs() const { return outputCount; }
  int64_t inputs() const { return inputCount; }
  int64_t kept() const { return static_cast<int64_t>(entryList.size()); }
  int64_t outputBlocks() const { return (outputCount + outputBlock - 1) / outputBlock; }
  int64_t inputBlocks() const { return (inputCount + inputBlock - 1) / inputBlock; }
  /// The runs of a block of outputs and a block of inputs.
  const SparseRun *runsBegin(int64_t ofOutputs, int64_t ofInputs) const {
    return runList.data() + firstRun[static_cast<size_t>(ofOutputs * inputBlocks() + ofInputs)];
  }
  const SparseRun *runsEnd(int64_t ofOutputs, int64_t ofInputs) const {
    return runList.data() + firstRun[static_cast<size_t>(ofOutputs * inputBlocks() + ofInputs) + 1];
  }
  const SparseEntry *entries() const { return entryList.data(); }
  /// Where in the weight each entry stands: its row-major index, or its place in kept form.
  const uint32_t *places() const { return placeList.data(); }

private:
  int64_t outputCount, inputCount;
  size_t room;
  std::vector<SparseEntry> entryList;
  std::vector<uint32_t> placeList;
  std::vector<SparseRun> runList;
  std::vector<uint32_t> firstRun;
  std::vector<uint32_t> keptBefore; // kept weights before each word of the mask; for useKeptForm
};

} // namespace sluice::cpu
