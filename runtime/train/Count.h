// Numbers as people write them in flags and specs: 2M, 1e6, 250_000, 1.5B.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A whole number of at least 0: digits with optional '_' or ',' between them, a fraction, an exponent, and a
/// unit K, M, B (or G), T for 10^3, 10^6, 10^9, 10^12. Errors (usage, naming `what`): anything else, a value
/// that is not whole, or one above 2^53.
StatusOr<int64_t> parseCount(std::string_view text, std::string_view what);

/// The candidate nearest to `name` by edit distance, or an empty text when none is near; for hints.
std::string nearestName(std::string_view name, const std::vector<std::string> &candidates);

} // namespace sluice
