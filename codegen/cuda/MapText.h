// The body of a `map` as CUDA C++ statements: one table with an expression for each scalar op.
#pragma once

#include "dialects/sluice/Sluice.h"

#include <functional>
#include <string>

namespace sluice::cuda {

/// A float32 literal that reads back to the same bits.
std::string floatText(double value);

/// Hands the statements that compute `map` of the named operands to `line`; the last declares `result`.
void mapText(MapOp map, llvm::ArrayRef<std::string> operands, const std::string &result,
             llvm::function_ref<void(const llvm::Twine &)> line);

} // namespace sluice::cuda
