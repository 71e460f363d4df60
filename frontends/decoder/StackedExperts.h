// Experts whose checkpoint holds all of them in one tensor, gate and up fused: gpt-oss.
#pragma once

#include "frontends/decoder/GraphParts.h"

namespace sluice {

/// `rows` [rows, width] are dispatched by `routing`; the result has the same shape. Weights are [experts, in,
/// out] with biases; the columns of gate and up alternate in one tensor; the activation is
/// config.moe->clampedGate.
mlir::Value buildStackedExperts(GraphParts &parts, mlir::Value rows, mlir::Value routing);

} // namespace sluice
