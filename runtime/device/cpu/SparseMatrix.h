// A masked weight as what it keeps, in the order in which the products that skip zeros read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::cpu {

/// The entries of `height` outputs from `output` on within one block of inputs, [begin, end) of
/// SparseMatrix::entries.
struct SparseRun {
  uint32_t output, begin, end;
};

/// The kept weights of a matrix that maps inputs to outputs. An entry is one input's weights of `height`
/// neighbouring outputs, all kept: one output where weights are kept one by one, several where they are kept
/// in blocks, so that what is read of an input serves them all. Entries are grouped by blocks of outputs,
/// within these by blocks of inputs, and within these by outputs (runs); the inputs of a run ascend. So a sum
/// over inputs has one order, whatever the height. Built anew when the mask changes; `refresh` copies values.
class SparseMatrix {
public:
  /// Blocks of inputs are as wide as the first-level cache holds for one panel of tokens, blocks of outputs
  /// as high as the second-level cache holds.
  static constexpr int64_t inputBlock = 64, outputBlock = 512;

  /// The largest height of entries that the products have and that divides `side`, the side along the outputs
  /// of a mask's blocks: 1, 2 or 4.
  static constexpr int64_t heightFor(int64_t side) { return side % 4 == 0 ? 4 : side % 2 == 0 ? 2 : 1; }

  /// Room for `most` weights at any time, so that `build` allocates nothing. Sizes are below 2^31; `outputs`
  /// is a multiple of `height`, which is one of heightFor.
  SparseMatrix(int64_t outputs, int64_t inputs, int64_t most, int64_t height = 1);

  /// Takes the weights of the row-major weight [outputs, inputs] that `mask` keeps, or with `transposed` of
  /// the weight [inputs, outputs]. Bit first + i of the mask, in word (first + i) / 64, is the element with
  /// row-major index i. Entries without room, and such of which only some weights are kept, are left out: a
  /// mask from outside must not reach further.
  void build(const uint64_t *mask, int64_t first, bool transposed);
  /// Drops all entries.
  void clear();
  /// The same where the weight is in kept form: the kept values alone, in row-major order. `places` then are
  /// places in that form.
  void useKeptForm(const uint64_t *mask, int64_t first);
  /// Copies the values of the kept weights from the weight, stored as `build` or `useKeptForm` take it.
  void refresh(const float *weight);

  int64_t outputs() const { return outputCount; }
  int64_t inputs() const { return inputCount; }
  int64_t height() const { return entryHeight; }
  /// Weights of all entries.
  int64_t kept() const { return static_cast<int64_t>(valueList.size()); }
  int64_t outputBlocks() const { return (outputCount + outputBlock - 1) / outputBlock; }
  int64_t inputBlocks() const { return (inputCount + inputBlock - 1) / inputBlock; }
  /// The runs of a block of outputs and a block of inputs.
  const SparseRun *runsBegin(int64_t ofOutputs, int64_t ofInputs) const {
    return runList.data() + firstRun[static_cast<size_t>(ofOutputs * inputBlocks() + ofInputs)];
  }
  const SparseRun *runsEnd(int64_t ofOutputs, int64_t ofInputs) const {
    return runList.data() + firstRun[static_cast<size_t>(ofOutputs * inputBlocks() + ofInputs) + 1];
  }
  /// The input of each entry, counted from the first of its block of inputs.
  const uint32_t *entryInputs() const { return inputList.data(); }
  /// The weights of entry e: [e * height(), (e + 1) * height()), output by output.
  const float *values() const { return valueList.data(); }
  /// Where in the weight each value stands: its row-major index, or its place in kept form.
  const uint32_t *places() const { return placeList.data(); }

private:
  int64_t outputCount, inputCount, entryHeight;
  size_t room;
  std::vector<uint32_t> inputList;
  std::vector<float> valueList;
  std::vector<uint32_t> placeList;
  std::vector<SparseRun> runList;
  std::vector<uint32_t> firstRun;
  std::vector<uint32_t> keptBefore; // kept weights before each word of the mask; for useKeptForm
};

} // namespace sluice::cpu
