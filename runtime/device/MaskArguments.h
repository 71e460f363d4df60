// Operands and attributes of commands with masks, checked alike for every device.
#pragma once

#include "runtime/device/Arguments.h"
#include "runtime/device/MaskPattern.h"

namespace sluice {

/// Input `index` as a mask of so many weights.
Tensor maskInput(Arguments &arguments, size_t index, int64_t weights);

/// The matrices of a mask, from the attributes shape (text, "[experts,]out,in"), kept and pattern.
struct MaskShape {
  int64_t matrices = 1;
  MaskPattern pattern; // of one
};
StatusOr<MaskShape> maskShape(Arguments &arguments);

/// The places and settings of update_mask; docs/dialects/sluice.md says what it does.
struct MaskUpdate {
  Tensor mask, places[3], age, gradient, seed, step, amount; // places: weight, exp_avg, exp_avg_sq
  uint64_t stream = 0, dropStream = 0;
  bool isSigned = false, isSoft = false, prunes = false; // prunes: gradual, nothing grows
  bool keptForm = false; // weight, moments and age hold kept values alone, in row-major order
  MaskShape shape;
  int64_t target = 1; // kept weights of a matrix at the end
  float restart = 0;

  /// Units of a group: of a matrix, or of one group of an n:m pattern; and how many of them stay at the end.
  int64_t groupUnits() const {
    return shape.pattern.isBlocks() ? shape.pattern.units() : shape.pattern.group;
  }
  int64_t targetUnits() const {
    const MaskPattern &pattern = shape.pattern;
    return target / pattern.blockSize() / (pattern.units() / groupUnits());
  }
};
StatusOr<MaskUpdate> maskUpdate(Arguments &arguments);

} // namespace sluice
