// The configuration that a graph or an executable remembers, so that its sizes may change again.
#pragma once

#include "frontends/cli/ModelCounter.h"

namespace sluice::cli {

/// The source of `model`, a graph (.mlir) or an executable (.slx): its model_config and training section, at
/// its own sizes. The graph of that configuration must count as the model does (parameters by role, forward
/// and training FLOPs), else the model was changed after it was built and has no configuration. Errors
/// (usage): no configuration, one of no known family, or another count.
StatusOr<ModelSource> configOfGraph(const std::string &model);

} // namespace sluice::cli
