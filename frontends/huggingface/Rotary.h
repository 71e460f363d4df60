// Rotary positions of a config.json: old and new key names, and the scalings as frequency tables.
#pragma once

#include "frontends/huggingface/ConfigReader.h"

namespace sluice {

/// What a family says where the file is silent.
struct RotaryDefaults {
  double theta = 10000;
  /// Share of a head that turns, for families that read `partial_rotary_factor`; 0: the family has no such
  /// key.
  double share = 0;
  /// Old names of theta and the share at the top level, if the family had its own.
  llvm::StringRef thetaKey = "rope_theta", shareKey = "partial_rotary_factor";
  /// The section as JSON, if the file has none.
  llvm::StringRef section = "";
};

/// Reads `rope_parameters` (new) or `rope_scaling` and `rope_theta` (old) into `config.ropeTheta` and
/// `config.rotary`. Needs headDim and maxPositions. Kinds: default, linear (Chen et al. 2023), llama3, yarn
/// (Peng et al. 2023); the frequencies are stated as a table. A kind that depends on the sequence at hand
/// (dynamic, longrope) is refused by name, as is an unknown key of the section.
Status readRotary(ConfigReader &reader, DecoderConfig &config, const RotaryDefaults &defaults);

} // namespace sluice
