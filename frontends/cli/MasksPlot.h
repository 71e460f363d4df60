// The picture of a run's masks: maps of densities, overlap and age by layer, and the churn of the updates.
#pragma once

#include "runtime/train/MaskReport.h"

#include <string>

namespace sluice::cli {

/// A whole SVG file. `title` is set above it.
std::string masksPlot(const MaskReport &report, const std::string &title);

} // namespace sluice::cli
