#include "runtime/checkpoint/StrictJson.h"

#include <cmath>
#include <set>
#include <vector>

namespace sluice {
namespace {

using Json = nlohmann::json;

/// Builds the value like the library's own handler, which would keep the last of two equal keys.
class StrictBuilder : public nlohmann::json_sax<Json> {
public:
  StrictBuilder(std::string_view place, int maxDepth) : place(place), maxDepth(maxDepth) {}

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(int64_t value) override { return add(Json(value)); }
  bool number_unsigned(uint64_t value) override { return add(Json(value)); }
  bool number_float(double value, const std::string &) override { return add(Json(value)); }
  bool string(std::string &value) override { return add(Json(std::move(value))); }
  bool binary(Json::binary_t &) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string &name) override {
    if (stack.back()->contains(name)) {
      error =
          badInputError(place, ": expected every key once, found ", inQuotes(name), " twice in one object");
      return false;
    }
    pending = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    error = badInputError(place, ": expected JSON, found something else near byte ", position,
                          "; the file is damaged or not JSON");
    return false;
  }

  Json root;
  Status error;

private:
  Json *insert(Json value) {
    if (stack.empty()) {
      root = std::move(value);
      return &root;
    }
    Json &parent = *stack.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[pending] = std::move(value));
  }
  bool add(Json value) {
    insert(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack.size() >= static_cast<size_t>(maxDepth)) {
      error = badInputError(place, ": expected at most ", maxDepth, " nested values, found more");
      return false;
    }
    stack.push_back(insert(std::move(value)));
    return true;
  }
  bool close() {
    stack.pop_back();
    return true;
  }

  std::string place;
  int maxDepth;
  std::vector<Json *> stack;
  std::string pending;
};

/// The first number that JSON cannot express, as a path like /best/loss; empty when there is none.
std::string findNotFinite(const Json &value, const std::string &path) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return path.empty() ? "/" : path;
  if (!value.is_structured())
    return {};
  for (auto item = value.begin(); item != value.end(); ++item) {
    std::string key = value.is_object() ? item.key() : std::to_string(item - value.begin());
    if (std::string found = findNotFinite(*item, concat(path, "/", key)); !found.empty())
      return found;
  }
  return {};
}

} // namespace

StatusOr<Json> parseStrictJson(std::string_view text, std::string_view place, int maxDepth) {
  // The library takes a NUL for the end of the text; the rest would go unread.
  if (size_t nul = text.find('\0'); nul != std::string_view::npos)
    return badInputError(place, ": expected JSON text, found a NUL at byte ", nul);
  StrictBuilder builder(place, maxDepth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return builder.error.ok() ? badInputError(place, ": not JSON") : builder.error;
  return std::move(builder.root);
}

StatusOr<std::string> dumpStrictJson(const Json &value, std::string_view place, int indent) {
  if (std::string path = findNotFinite(value, ""); !path.empty())
    return failure(place, ": ", inQuotes(path), " is NaN or infinite, which JSON cannot hold");
  try {
    return value.dump(indent);
  } catch (const Json::exception &) {
    return failure(place, ": a text in it is not UTF-8, which JSON cannot hold");
  }
}

std::string inQuotes(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result = "'";
  for (unsigned char byte : text.substr(0, 80)) {
    if (byte >= 0x20 && byte != 0x7f)
      result.push_back(static_cast<char>(byte));
    else
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return result + (text.size() > 80 ? "...'" : "'");
}

bool isPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

} // namespace sluice
