// Operands of embedding and gather and of their adjoints, checked alike for every device.
#pragma once

#include "runtime/device/Arguments.h"

namespace sluice {

/// y[i] = table[ids[i]]: ids i32, table [rows, width...] and y of one 4-byte type.
struct LookupArguments {
  Tensor ids, table, y;
  int64_t rows = 0, width = 0;
};

/// dtable[ids[i]] (+)= dy[i], all f32 but the ids.
struct LookupGradientArguments {
  Tensor ids, dy, dtable;
  int64_t rows = 0, width = 0;
  bool accumulate = false;
};

/// What is wrong is in `arguments`; sizes mean nothing then. `idsIndex`, `tableIndex`: the inputs that these
/// are.
LookupArguments lookupArguments(Arguments &arguments, size_t idsIndex, size_t tableIndex);
LookupGradientArguments lookupGradientArguments(Arguments &arguments);

} // namespace sluice
