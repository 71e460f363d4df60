// A spec as a flat map from key paths to values with places: YAML in, checked keys out. Untrusted input.
#pragma once

#include "frontends/spec/SpecKeys.h"
#include "runtime/support/Status.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// One value and where it was written ("models/demo/moe.yaml:12" or "--set train.lr=3e-4").
struct SpecValue {
  std::vector<std::string> scalars; // one, or several for a list
  std::string place;
};

/// Keys that were written, by path. A section that may be a list (SpecKeys.h) has the number of an element
/// after its name: "sparsity.1.density". Later layers (a spec over its base, --set over both) replace earlier
/// ones.
class SpecTree {
public:
  /// Reads a YAML file and its `base` chain. Errors: usageError with file:line, expectation, finding and the
  /// nearest known key for unknown ones; aliases, deep nesting and duplicate keys are refused.
  static StatusOr<SpecTree> read(const std::string &path);
  /// Applies "a.b=c".
  Status set(const std::string &assignment);

  bool has(llvm::StringRef path) const { return values.count(path.str()) != 0; }
  /// Whether any key of the section was written.
  bool hasSection(llvm::StringRef section) const;
  /// Elements of a section that was written as a list; 0 where it was not.
  size_t listSize(llvm::StringRef section) const;
  /// Typed reads of a registered key; nullopt if it was not written. Errors name place, expectation and
  /// finding.
  StatusOr<std::optional<int64_t>> integer(llvm::StringRef path) const;
  StatusOr<std::optional<double>> number(llvm::StringRef path) const;
  StatusOr<std::optional<bool>> boolean(llvm::StringRef path) const;
  StatusOr<std::optional<std::string>> text(llvm::StringRef path) const;
  StatusOr<std::optional<std::vector<int64_t>>> integers(llvm::StringRef path) const;
  StatusOr<std::optional<std::vector<std::string>>> texts(llvm::StringRef path) const;
  /// Where the key was written, for messages about several keys; empty if it was not.
  std::string place(llvm::StringRef path) const;

  const std::map<std::string, SpecValue> &all() const { return values; }

private:
  Status readInto(const std::string &path, int depth);
  Status checkKey(const std::string &path, const std::string &place) const;
  Status wrongValue(llvm::StringRef path, const std::string &finding) const;

  std::map<std::string, SpecValue> values;
};

} // namespace sluice
