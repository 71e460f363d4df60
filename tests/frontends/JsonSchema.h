// A checker for the part of JSON Schema that docs/ledger.schema.json uses.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::test {

/// The violations of `value` against `schema` (type, enum, pattern of ^...$, properties, required,
/// additionalProperties, items, $ref into the document), each with its place. A keyword that the checker does
/// not know is a violation too.
std::vector<std::string> schemaViolations(const nlohmann::json &schema, const nlohmann::json &value);

} // namespace sluice::test
