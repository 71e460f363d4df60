// How a command of kind route chooses experts: its attributes, read and checked once for all devices.
#pragma once

#include "runtime/device/Arguments.h"

namespace sluice {

/// The topK best of the experts in the `kept` best of `groups` groups. A group's score is its best key or the
/// sum of its best two.
struct Selection {
  static constexpr int64_t mostGroups = 256;
  int64_t groups = 1, kept = 1;
  bool sumOfBestTwo = false;
  Tensor bias; // added to the probabilities of the keys; empty if there is none

  /// Keys are probabilities (plus bias), not logits.
  bool comparesProbabilities() const { return bias.data || (groups > 1 && sumOfBestTwo); }
};

/// Reads groups, groups_kept, group_score and the optional bias (input 1) of a route command; errors stay in
/// `arguments`.
Selection readSelection(Arguments &arguments, int64_t experts, int64_t topK);

} // namespace sluice
