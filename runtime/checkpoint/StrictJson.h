// JSON from outside, read strictly: no duplicate keys, bounded nesting, nothing after the value.
#pragma once

#include "runtime/support/Status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace sluice {

/// Parses one JSON value. `place` names the source in messages. A duplicate key, nesting deeper than
/// `maxDepth`, invalid UTF-8, a NUL byte or text after the value is a bad-input error that states the byte.
StatusOr<nlohmann::json> parseStrictJson(std::string_view text, std::string_view place, int maxDepth = 64);

/// `value` as compact JSON (`indent` < 0) or indented. JSON has neither NaN nor infinity and only UTF-8: a
/// value that cannot be written is an error which names `place`; nothing is replaced in silence.
StatusOr<std::string> dumpStrictJson(const nlohmann::json &value, std::string_view place, int indent = -1);

/// Text from outside, fit for a one-line message: in quotes, control bytes escaped, cut after 80 bytes.
std::string inQuotes(std::string_view text);

/// True for a name that stays inside its folder: not empty, no separator, no NUL, neither "." nor "..".
bool isPlainFileName(std::string_view name);

} // namespace sluice
