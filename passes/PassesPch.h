// Precompiled for every pass.
#pragma once

#include "dialects/plan/Plan.h"
#include "dialects/sluice/Dims.h"
#include "dialects/sluice/Sluice.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"
