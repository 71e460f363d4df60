#include "frontends/spec/SpecTree.h"

#include "runtime/support/File.h"
#include "runtime/train/Count.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <functional>

namespace sluice {
namespace {

constexpr int maximumNesting = 8, maximumBases = 8;
constexpr size_t maximumBytes = 1 << 20;

std::optional<double> parseNumber(llvm::StringRef text) {
  double value = 0;
  if (text.empty() || text.getAsDouble(value) || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// An alias may expand without bound, and a spec needs none: values never start with '*' or '&'.
Status refuseAliases(const std::string &bytes, const std::string &path) {
  size_t line = 1;
  char previous = '\n';
  bool comment = false;
  for (char letter : bytes) {
    if (letter == '\n') {
      ++line;
      comment = false;
    }
    comment |= letter == '#' && (previous == ' ' || previous == '\n');
    if (!comment && (letter == '*' || letter == '&') &&
        (previous == ' ' || previous == '\n' || previous == '['))
      return usageError(path, ":", line,
                        ": expected a spec without YAML anchors and aliases; use `base` instead");
    previous = letter;
  }
  return absl::OkStatus();
}

bool isList(const SpecKey &key) {
  return key.kind == SpecKind::IntegerList || key.kind == SpecKind::TextList;
}

} // namespace

StatusOr<SpecTree> SpecTree::read(const std::string &path) {
  SpecTree tree;
  SLUICE_RETURN_IF_ERROR(tree.readInto(path, 0));
  return tree;
}

Status SpecTree::checkKey(const std::string &path, const std::string &place) const {
  if (findSpecKey(path))
    return absl::OkStatus();
  if (isSpecSection(path))
    return usageError(place, ": '", path, "' is a section: expected keys below it");
  return usageError(place, ": unknown key '", path, "'; did you mean '", nearestSpecKey(path),
                    "'? `sluice schema` lists all keys");
}

Status SpecTree::readInto(const std::string &path, int depth) {
  if (depth > maximumBases)
    return usageError(path, ": expected at most ", maximumBases, " specs in a chain of `base` keys");
  StatusOr<std::string> bytes = readFile(path);
  if (!bytes.ok())
    return usageError(std::string(bytes.status().message()));
  if (bytes->size() > maximumBytes)
    return usageError(path, ": expected a spec of at most 1 MiB, found ", bytes->size(), " bytes");
  SLUICE_RETURN_IF_ERROR(refuseAliases(*bytes, path));
  YAML::Node root;
  try {
    root = YAML::Load(*bytes);
  } catch (const YAML::Exception &error) {
    return usageError(path, ":", error.mark.line + 1, ": not YAML: ", error.msg);
  }
  std::map<std::string, SpecValue> own;
  std::function<Status(const YAML::Node &, const std::string &, int)> visit =
      [&](const YAML::Node &node, const std::string &prefix, int nesting) -> Status {
    if (nesting > maximumNesting)
      return usageError(path, ":", node.Mark().line + 1, ": expected at most ", maximumNesting,
                        " levels of nesting");
    for (const auto &entry : node) {
      std::string place = concat(path, ":", entry.first.Mark().line + 1);
      if (!entry.first.IsScalar())
        return usageError(place, ": expected a key, found a structure");
      std::string key = prefix.empty() ? entry.first.Scalar() : prefix + "." + entry.first.Scalar();
      if (entry.second.IsMap()) {
        if (!isSpecSection(key)) {
          SLUICE_RETURN_IF_ERROR(checkKey(key, place));
          return usageError(place, ": '", key, "': expected ", expectedText(*findSpecKey(key)),
                            ", found a section");
        }
        SLUICE_RETURN_IF_ERROR(visit(entry.second, key, nesting + 1));
        continue;
      }
      if (entry.second.IsNull() && isSpecSection(key))
        continue; // an empty section
      if (entry.second.IsSequence() && isSpecList(key)) {
        size_t number = 0;
        for (const auto &element : entry.second) {
          if (!element.IsMap())
            return usageError(place, ": '", key, "': expected a list of sections, found a value");
          SLUICE_RETURN_IF_ERROR(visit(element, concat(key, ".", number++), nesting + 1));
        }
        continue;
      }
      SLUICE_RETURN_IF_ERROR(checkKey(key, place));
      SpecValue value;
      value.place = place;
      if (entry.second.IsSequence()) {
        for (const auto &element : entry.second) {
          if (!element.IsScalar())
            return usageError(place, ": '", key, "': expected a list of plain values");
          value.scalars.push_back(element.Scalar());
        }
        if (!isList(*findSpecKey(key)))
          return usageError(place, ": '", key, "': expected ", expectedText(*findSpecKey(key)),
                            ", found a list");
      } else {
        value.scalars.push_back(entry.second.IsNull() ? "" : entry.second.Scalar());
      }
      if (!own.emplace(key, value).second)
        return usageError(place, ": '", key, "' is written twice; the first is at ", own[key].place);
    }
    return absl::OkStatus();
  };
  if (root.IsNull() || !root.IsMap())
    return usageError(path, ":1: expected a spec: keys such as `model:` and `train:`");
  SLUICE_RETURN_IF_ERROR(visit(root, "", 0));
  if (auto base = own.find("base"); base != own.end()) {
    llvm::SmallString<256> basePath(llvm::sys::path::parent_path(path));
    llvm::sys::path::append(basePath, base->second.scalars[0]);
    if (Status status = readInto(basePath.str().str(), depth + 1); !status.ok())
      return usageError(std::string(status.message()), " (base of ", base->second.place, ")");
    own.erase(base);
    values.erase("name"); // a variant is named after its own file
  }
  // A list takes the place of what the base has, whose elements have nothing to do with its own.
  for (auto &[key, value] : own)
    if (const std::string list = specListOf(key); !list.empty())
      std::erase_if(values, [&](const auto &entry) { return entry.first.starts_with(list + "."); });
  for (auto &[key, value] : own)
    values[key] = value;
  return absl::OkStatus();
}

Status SpecTree::set(const std::string &assignment) {
  std::string place = concat("--set ", assignment);
  size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    return usageError(place, ": expected KEY=VALUE, e.g. --set train.lr=3e-4");
  std::string key = assignment.substr(0, equals);
  SLUICE_RETURN_IF_ERROR(checkKey(key, place));
  SpecValue value;
  value.place = place;
  llvm::StringRef text = llvm::StringRef(assignment).drop_front(equals + 1).trim();
  if (isList(*findSpecKey(key)) && text.consume_front("[") && text.consume_back("]")) {
    llvm::SmallVector<llvm::StringRef> parts;
    text.split(parts, ',');
    for (llvm::StringRef part : parts)
      value.scalars.push_back(part.trim().str());
  } else {
    value.scalars.push_back(text.str());
  }
  values[key] = value;
  return absl::OkStatus();
}

bool SpecTree::hasSection(llvm::StringRef section) const {
  std::string prefix = (section + ".").str();
  auto next = values.lower_bound(prefix);
  return next != values.end() && llvm::StringRef(next->first).starts_with(prefix);
}

size_t SpecTree::listSize(llvm::StringRef section) const {
  size_t count = 0;
  for (const auto &[key, value] : values)
    if (llvm::StringRef rest = key; specListOf(key) == section && rest.consume_front((section + ".").str())) {
      size_t number = 0;
      if (!rest.split('.').first.getAsInteger(10, number))
        count = std::max(count, number + 1);
    }
  return count;
}

std::string SpecTree::place(llvm::StringRef path) const {
  auto found = values.find(path.str());
  return found == values.end() ? "" : found->second.place;
}

Status SpecTree::wrongValue(llvm::StringRef path, const std::string &finding) const {
  return usageError(place(path), ": '", path.str(), "': expected ", expectedText(*findSpecKey(path)),
                    ", found '", finding, "'");
}

StatusOr<std::optional<int64_t>> SpecTree::integer(llvm::StringRef path) const {
  auto found = values.find(path.str());
  if (found == values.end())
    return std::nullopt;
  StatusOr<int64_t> value = parseCount(found->second.scalars.at(0), path.str());
  if (!value.ok())
    return wrongValue(path, found->second.scalars[0]);
  return *value;
}

StatusOr<std::optional<double>> SpecTree::number(llvm::StringRef path) const {
  auto found = values.find(path.str());
  if (found == values.end())
    return std::nullopt;
  std::optional<double> value = parseNumber(found->second.scalars.at(0));
  if (!value)
    return wrongValue(path, found->second.scalars[0]);
  return value;
}

StatusOr<std::optional<bool>> SpecTree::boolean(llvm::StringRef path) const {
  auto found = values.find(path.str());
  if (found == values.end())
    return std::nullopt;
  const std::string &text = found->second.scalars.at(0);
  if (text != "true" && text != "false")
    return wrongValue(path, text);
  return text == "true";
}

StatusOr<std::optional<std::string>> SpecTree::text(llvm::StringRef path) const {
  auto found = values.find(path.str());
  if (found == values.end())
    return std::nullopt;
  const std::string &text = found->second.scalars.at(0);
  if (const SpecKey *key = findSpecKey(path); key->kind == SpecKind::Choice) {
    llvm::SmallVector<llvm::StringRef> choices;
    key->choices.split(choices, '|');
    if (!llvm::is_contained(choices, text))
      return wrongValue(path, text);
  }
  return text;
}

StatusOr<std::optional<std::vector<std::string>>> SpecTree::texts(llvm::StringRef path) const {
  auto found = values.find(path.str());
  if (found == values.end())
    return std::nullopt;
  return found->second.scalars;
}

StatusOr<std::optional<std::vector<int64_t>>> SpecTree::integers(llvm::StringRef path) const {
  auto found = values.find(path.str());
  if (found == values.end())
    return std::nullopt;
  std::vector<int64_t> list;
  for (const std::string &scalar : found->second.scalars) {
    StatusOr<int64_t> value = parseCount(scalar, path.str());
    if (!value.ok())
      return wrongValue(path, scalar);
    list.push_back(*value);
  }
  return list;
}

} // namespace sluice
