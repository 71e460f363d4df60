// What attention's products need: queries, keys and values of all heads.
#pragma once

#include "frontends/decoder/GraphParts.h"

namespace sluice {

/// [batch, seq, heads * dimension], positions applied.
struct Qkv {
  mlir::Value q, k, v;
};

/// Latent attention's, from the normalised stream [batch, seq, width]: queries and keys have plainDim +
/// headDim elements a head, values valueDim.
Qkv projectLatent(GraphParts &parts, mlir::Value n);

/// Rotary positions on the elements of each head from `offset` on, as the configuration says.
mlir::Value rotated(GraphParts &parts, llvm::StringRef name, mlir::Value x, int64_t heads, int64_t offset = 0,
                    bool interleaved = false);

} // namespace sluice
