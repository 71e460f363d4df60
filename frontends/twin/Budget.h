// From a budget of compute to tokens, steps and epochs, in exact integers.
#pragma once

#include "dialects/interfaces/Counts.h"
#include "runtime/support/Status.h"

#include <string>
#include <string_view>

namespace sluice {

/// A whole number of any size as people write it: 9.36e20, 2.15B, 300_000. Error (usage, naming `what`):
/// anything else, a fraction of one, or 2^120 and above.
StatusOr<Count> parseLargeCount(std::string_view text, std::string_view what);

/// A share as people write it: 20%, 0.2. Error (usage, naming `what`): anything else, or not from 0 to 1.
StatusOr<double> parseShare(std::string_view text, std::string_view what);

/// Tokens that cost `compute` at `stepFlops` FLOPs for every `stepTokens` tokens: the nearest whole number of
/// steps, at least one.
struct TokenBudget {
  Count steps = 0, tokens = 0, flops = 0; // flops: what they really cost
};
TokenBudget tokensForCompute(Count compute, Count stepFlops, Count stepTokens);

} // namespace sluice
