#include "runtime/device/Rotation.h"

#include <cmath>

namespace sluice {

Rotation readRotation(Arguments &arguments) {
  arguments.inputs(1);
  arguments.outputs(1);
  Rotation rotation;
  rotation.x = arguments.input(0);
  rotation.y = arguments.output(0);
  rotation.sequence = rotation.x.dim(1);
  rotation.heads = arguments.integer("heads", 1, 1 << 20);
  rotation.headDim = arguments.integer("head_dim", 2, 1 << 20);
  rotation.offset = arguments.integerOr("offset", 0);
  const int64_t rotary = arguments.integerOr("rotary_dim", rotation.headDim - rotation.offset);
  rotation.half = rotary / 2;
  rotation.interleaved = arguments.flag("interleaved");
  rotation.direction = arguments.flag("inverse") ? -1.0f : 1.0f;
  rotation.theta = arguments.number("theta");
  rotation.factor = arguments.numberOr("factor", 1);
  rotation.frequencies = arguments.numbers("frequencies");
  arguments.require(rotation.offset >= 0 && rotary >= 2 && rotary <= rotation.headDim - rotation.offset,
                    "the rotary part must lie inside a head");
  arguments.require(rotary % 2 == 0, "rotary_dim (head_dim if absent) must be even");
  arguments.require(rotation.theta > 0, "theta must be positive");
  arguments.require(rotation.factor > 0 && std::isfinite(rotation.factor), "factor must be positive");
  arguments.require(rotation.frequencies.empty() ||
                        static_cast<int64_t>(rotation.frequencies.size()) == rotation.half,
                    "frequencies must hold one number a pair");
  arguments.require(rotation.x.rank() == 3 && rotation.x.dim(2) == rotation.heads * rotation.headDim,
                    "x must be [B, S, heads * head_dim]");
  arguments.require(rotation.x.shape == rotation.y.shape, "input and output must have one shape");
  return rotation;
}

void Rotation::makeTables() {
  for (int64_t s = 0; s < sequence; ++s)
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = frequencies.empty()
                                   ? std::pow(theta, -static_cast<double>(i) / static_cast<double>(half))
                                   : frequencies[static_cast<size_t>(i)];
      const double angle = static_cast<double>(s) * frequency;
      cosine.push_back(static_cast<float>(factor * std::cos(angle)));
      sine.push_back(static_cast<float>(factor * std::sin(angle)));
    }
}

} // namespace sluice
