// Reads the keys of one config.json and remembers which were read, so that the rest can be judged.
#pragma once

#include "frontends/decoder/DecoderConfig.h"

#include "llvm/Support/JSON.h"

#include <set>
#include <string>

namespace sluice {

class ConfigReader {
public:
  /// `place` is the file, for messages.
  ConfigReader(const llvm::json::Object &object, std::string place)
      : object(object), place(std::move(place)) {}

  /// The integer at `key`; `fallback` if absent or null; negative fallback: required.
  StatusOr<int64_t> integer(llvm::StringRef key, int64_t fallback);
  StatusOr<double> number(llvm::StringRef key, double fallback);
  /// `fallback` if the key is absent, 0 if it is null; a stated value must be positive.
  StatusOr<int64_t> nullableInteger(llvm::StringRef key, int64_t fallback);
  StatusOr<double> nullableNumber(llvm::StringRef key, double fallback);
  StatusOr<bool> boolean(llvm::StringRef key, bool fallback);
  StatusOr<std::string> text(llvm::StringRef key, llvm::StringRef fallback);
  /// The object at `key`, or null if it is absent or null.
  StatusOr<const llvm::json::Object *> section(llvm::StringRef key);
  /// The integers at `key`; empty if it is absent or null.
  StatusOr<std::vector<int64_t>> integers(llvm::StringRef key);
  /// The texts at `key`, one a layer; empty if it is absent or null.
  StatusOr<std::vector<std::string>> texts(llvm::StringRef key, int64_t count);

  /// Whether the key is there and not null; it counts as read.
  bool has(llvm::StringRef key) { return find(key) != nullptr; }
  /// Keys that this family knows to be without effect here.
  void ignore(std::initializer_list<llvm::StringRef> keys);
  /// The key must be absent, null or false (or 0): anything else changes the meaning in a way that is not
  /// supported.
  Status requireOff(llvm::StringRef key);

  /// An error at `key`.
  Status wrong(llvm::StringRef key, const std::string &expectation) const;
  Status error(const std::string &text) const { return usageError(place, ": ", text); }
  /// An error if a key was not read and is not known to be without effect on the computation.
  Status checkRest() const;

private:
  const llvm::json::Value *find(llvm::StringRef key);

  const llvm::json::Object &object;
  std::string place;
  std::set<std::string> read;
};

} // namespace sluice
