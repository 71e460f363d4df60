// Rotary positions of a command of kind rope: its settings and its table of cosines and sines, read and made
// once for all devices.
#pragma once

#include "runtime/device/Arguments.h"

namespace sluice {

/// The rotary part of every head: elements [offset, offset + 2 half) turn, in pairs that are half apart or,
/// if interleaved, neighbours.
struct Rotation {
  Tensor x, y; // [batch, sequence, heads * headDim]
  int64_t sequence = 0, heads = 1, headDim = 2, offset = 0, half = 1;
  bool interleaved = false;
  float direction = 1;             // -1 turns back
  std::vector<float> cosine, sine; // [sequence, half], times the command's factor; filled by makeTables
  double theta = 1, factor = 1;
  std::vector<double> frequencies; // empty: theta^(-i/half)

  /// Pair i of the token at position s turns by s * frequency(i) (Su et al. 2021); angles are in float64.
  void makeTables();
};

/// Reads a command of kind rope and checks its shapes; errors stay in `arguments`.
Rotation readRotation(Arguments &arguments);

} // namespace sluice
