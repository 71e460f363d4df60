// A twin's configuration as a spec: the reference's own keys with what changed.
#pragma once

#include "frontends/decoder/DecoderConfig.h"
#include "frontends/spec/SpecTree.h"

#include "llvm/Support/JSON.h"

#include <optional>
#include <string>

namespace sluice {

/// The spec of `twin` as YAML. With a `reference` spec its keys stay (training, data, schedule), those of
/// sizes that differ are replaced, and keys of experts and their losses go when the twin has none; without,
/// every key of the model is written, `batch` and `sequence`, and what `training` (a graph's training
/// section) says. `comment` becomes the first lines.
std::string twinSpec(const DecoderConfig &twin, const DecoderConfig &referenceConfig,
                     const std::optional<SpecTree> &reference, const llvm::json::Object &training,
                     int64_t batch, int64_t sequence, const std::string &comment);

} // namespace sluice
