#include "tests/frontends/JsonSchema.h"

#include <regex>

namespace sluice::test {
namespace {

using Json = nlohmann::json;

class Checker {
public:
  explicit Checker(const Json &root) : root(root) {}

  void check(const Json &schema, const Json &value, const std::string &place) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>())
        report(place, "must not be there");
      return;
    }
    for (const auto &[keyword, rule] : schema.items()) {
      if (keyword == "$ref")
        check(root.at(Json::json_pointer(rule.get<std::string>().substr(1))), value, place);
      else if (keyword == "type")
        checkType(rule, value, place);
      else if (keyword == "enum") {
        if (std::find(rule.begin(), rule.end(), value) == rule.end())
          report(place, "must be one of " + rule.dump() + ", found " + value.dump());
      } else if (keyword == "pattern") {
        if (value.is_string() &&
            !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
          report(place, "must match " + rule.dump() + ", found " + value.dump());
      } else if (keyword == "required") {
        for (const Json &key : rule)
          if (value.is_object() && !value.contains(key.get<std::string>()))
            report(place, "lacks " + key.dump());
      } else if (keyword == "properties" || keyword == "additionalProperties") {
        if (value.is_object())
          checkProperties(schema, keyword, rule, value, place);
      } else if (keyword == "items") {
        for (size_t i = 0; value.is_array() && i < value.size(); ++i)
          check(rule, value[i], place + "/" + std::to_string(i));
      } else if (keyword != "description" && keyword != "title" && keyword != "$schema" &&
                 keyword != "$defs") {
        report(place, "the checker does not know the keyword " + keyword);
      }
    }
  }

  std::vector<std::string> violations;

private:
  void report(const std::string &place, const std::string &what) {
    violations.push_back((place.empty() ? "/" : place) + " " + what);
  }

  void checkType(const Json &type, const Json &value, const std::string &place) {
    const bool right = type == "object"    ? value.is_object()
                       : type == "array"   ? value.is_array()
                       : type == "string"  ? value.is_string()
                       : type == "integer" ? value.is_number_integer()
                                           : false;
    if (!right)
      report(place, "must be of type " + type.dump() + ", found " + value.dump().substr(0, 40));
  }

  void checkProperties(const Json &schema, const std::string &keyword, const Json &rule, const Json &value,
                       const std::string &place) {
    for (const auto &[key, inner] : value.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(key);
      if (keyword == "properties" && named)
        check(rule.at(key), inner, place + "/" + key);
      else if (keyword == "additionalProperties" && !named)
        check(rule, inner, place + "/" + key);
    }
  }

  const Json &root;
};

} // namespace

std::vector<std::string> schemaViolations(const Json &schema, const Json &value) {
  Checker checker(schema);
  checker.check(schema, value, "");
  return checker.violations;
}

} // namespace sluice::test
