// State tensors under the names of weight files, in both directions, bit for bit.
#pragma once

#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/WeightFiles.h"
#include "runtime/executor/Session.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// The names under which a tensor lies in a weight file: its checkpoint name (or its own), with "{expert}"
/// replaced by 0, 1, ... along the first dimension.
std::vector<std::string> weightNames(const StateTensor &tensor);

/// Parameters (and other states with a checkpoint name) as they go into model.safetensors. The sources read
/// from the session when they are written.
std::vector<TensorSource> modelTensors(const Session &session);

/// Moments, named after their parameter's weight names (firstMomentName, secondMomentName), and states
/// without a checkpoint name: with modelTensors, everything that a resumed run needs. Gradients are zero
/// between steps.
std::vector<TensorSource> optimizerTensors(const Session &session);

/// A tensor of a file by name, or null.
using TensorLookup = std::function<const TensorView *(std::string_view name)>;

/// Writes the model's parameters from `lookup`. float32 states take f32, f64, bf16 and f16 tensors whose
/// values they can hold exactly. Errors (bad input, naming `place`): a tensor that is missing, of another
/// shape, or not exact.
Status importModel(Session &session, const TensorLookup &lookup, const std::string &place);
/// The same for what optimizerTensors gives; element types must agree.
Status importOptimizer(Session &session, const TensorLookup &lookup, const std::string &place);

/// Writes the model's masks from `lookup`, where they have their states' names ("layers.0.attn.wq.mask"; a
/// checkpoint's optimizer.safetensors and the masks.safetensors of an export have them). Weights come first:
/// afterwards masks and weights are checked against each other (checkMaskedStates). Does nothing for a dense
/// model. Errors (bad input, naming `place`): a mask that is missing or of another shape, number of kept
/// weights or pattern; a weight outside its mask that is not zero.
Status importMasks(Session &session, const TensorLookup &lookup, const std::string &place);

/// The masks' file beside exported weights.
inline constexpr const char *masksFile = "masks.safetensors";

/// Names in `files` that no parameter took, sorted: for a message to the person.
std::vector<std::string> unusedTensors(const Session &session, const WeightFiles &files);

/// Writes model.safetensors, config.json (when the executable has a model_config) and masks.safetensors (when
/// the model has masks) into `folder`, which is made.
Status exportModel(const Session &session, const std::string &folder);

/// The name of the first parameter or, if all are finite, the first gradient with a value that is not finite;
/// empty when there is none. Gradients are in the order of the model.
StatusOr<std::string> firstNotFinite(const Session &session);

} // namespace sluice
