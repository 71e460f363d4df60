// The masks of a model as its executable describes them, and the checks of masks and masked weights that come
// from a file.
#pragma once

#include "runtime/device/MaskPattern.h"
#include "runtime/executor/Session.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One mask. Pointers lead into the executable's description, which must outlive this.
struct ModelMask {
  std::string name;                                      // "layers.0.attn.wq.mask"
  const StateTensor *mask = nullptr, *weights = nullptr; // null where there is a graph and no executable
  const StateTensor *age = nullptr;                      // null where weights do not count their steps
  MaskPattern pattern;                                   // of one matrix
  std::string patternName;                               // "unstructured", "2:4", "block:16x16"
  int64_t matrices = 1;                                  // one an expert
  bool isStacked = false;                                // [experts, out, in]
  int64_t target = 0; // kept weights of a matrix at the end; pattern.kept but in gradual pruning
  double restart = 0; // the age of a grown weight
  /// The attribute `skip_at_most` of each product of a micro-batch with this mask.
  std::vector<int64_t> skipAtMost;

  int64_t weightCount() const { return matrices * pattern.size(); }
};

/// What one update did.
struct MaskChange {
  int64_t step = 0;
  double share = 0;   // of the kept weights, that the schedule asked to replace where masks grow
  double removed = 0; // of what gradual pruning will remove
  struct Layer {
    std::string name;                         // of the weights
    int64_t kept = 0, grown = 0, dropped = 0; // kept after the update; came; went
    int64_t products = 0, skipping = 0; // of a micro-batch with this mask; of these, that skip zeros now
  };
  std::vector<Layer> layers;

  /// Over all layers.
  Layer total() const;
};

/// The executable's masks in its order; none for a dense model. They are what entry point `init` draws.
/// Errors (bad input): an `init` whose masks are no states of the model.
StatusOr<std::vector<ModelMask>> modelMasks(const ExecutableDescription &model);

/// The mask of a run's start: a pure function of the seed and the mask's name, so no file needs to keep it.
std::string startMask(const ModelMask &mask, int64_t seed);

inline bool keepsWeight(std::string_view bits, int64_t weight) {
  return (static_cast<uint8_t>(bits[static_cast<size_t>(weight >> 3)]) >> (weight & 7) & 1) != 0;
}

/// Counts what `after` keeps beyond `before`, and the other way round. Allocates nothing.
void countChange(std::string_view before, std::string_view after, MaskChange::Layer &layer);

/// Checks the bits of a mask: pattern.kept weights of each matrix (in gradual pruning any number from the
/// target on, the same in each), whole blocks, n of each group, no bit beyond the last weight. Errors (bad
/// input, naming `place` and the matrix): the first rule that does not hold.
Status checkMaskBits(const ModelMask &mask, std::string_view bits, const std::string &place);

/// Checks that value i of tensor `tensor` is zero wherever the mask does not keep weight i. Errors (bad
/// input): how many are not, and where the first one is.
Status checkZerosOutside(const ModelMask &mask, std::string_view bits, const std::string &tensor,
                         const std::function<double(int64_t)> &value, const std::string &place);

/// Checks every mask that the session holds. Errors as checkMaskBits.
Status checkMasks(const Session &session, const std::string &place);

/// The same, and that weights, moments and ages outside the masks are zero:
/// kernels that skip zeros and kernels that multiply them would compute different models otherwise. `place`
/// names the file in errors (bad input).
Status checkMaskedStates(const Session &session, const std::string &place);

} // namespace sluice
