// Typed reads of a spec's keys with one error for all of them.
#pragma once

#include "frontends/spec/SpecTree.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>

namespace sluice {

/// Reads typed keys and remembers the first error, so that a section reads as a list of lines.
class SpecReader {
public:
  explicit SpecReader(const SpecTree &tree) : tree(tree) {}
  const Status &status() const { return first; }

  void read(llvm::StringRef path, int64_t &value) { take(tree.integer(path), value); }
  void read(llvm::StringRef path, double &value) { take(tree.number(path), value); }
  void read(llvm::StringRef path, bool &value) { take(tree.boolean(path), value); }
  void read(llvm::StringRef path, std::string &value) { take(tree.text(path), value); }
  void require(llvm::StringRef path) {
    if (!tree.has(path) && first.ok())
      first = usageError("key '", path.str(), "' is missing: expected ", expectedText(*findSpecKey(path)),
                         " (", findSpecKey(path)->description.str(), ")");
  }
  /// Copies a written key of `section` into `object` under its last word, as JSON of its kind.
  void copy(llvm::json::Object &object, llvm::StringRef section) {
    for (const SpecKey &key : specKeys()) {
      if (!key.path.starts_with((section + ".").str()) || !tree.has(key.path))
        continue;
      copyAs(object, key.path, key.path.drop_front(section.size() + 1));
    }
  }
  /// Copies the written key `path` under `name`.
  void copyAs(llvm::json::Object &object, llvm::StringRef path, llvm::StringRef name) {
    auto put = [&](auto value) {
      if (!value.ok())
        fail(value.status());
      else if (*value)
        object[name] = llvm::json::Value(std::move(**value));
    };
    switch (findSpecKey(path)->kind) {
    case SpecKind::Integer:
      put(tree.integer(path));
      break;
    case SpecKind::Number:
      put(tree.number(path));
      break;
    case SpecKind::Boolean:
      put(tree.boolean(path));
      break;
    case SpecKind::IntegerList: {
      auto list = tree.integers(path);
      if (!list.ok())
        return fail(list.status());
      llvm::json::Array array;
      for (int64_t value : **list)
        array.push_back(value);
      object[name] = std::move(array);
      break;
    }
    case SpecKind::TextList: {
      auto list = tree.texts(path);
      if (!list.ok())
        return fail(list.status());
      llvm::json::Array array;
      for (const std::string &value : **list)
        array.push_back(value);
      object[name] = std::move(array);
      break;
    }
    case SpecKind::IntegerOrText:
      if (auto count = tree.integer(path); count.ok())
        put(std::move(count));
      else
        put(tree.text(path));
      break;
    case SpecKind::Text:
    case SpecKind::Choice:
      put(tree.text(path));
      break;
    }
  }
  void fail(const Status &status) {
    if (first.ok())
      first = status;
  }

private:
  template <typename T> void take(StatusOr<std::optional<T>> value, T &target) {
    if (!value.ok())
      fail(value.status());
    else if (*value)
      target = **value;
  }
  const SpecTree &tree;
  Status first;
};

} // namespace sluice
