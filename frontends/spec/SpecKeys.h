// The one registry of a spec's keys: it drives the parser, the error messages, `sluice schema` and the
// documentation.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace sluice {

/// What a key's value may be.
enum class SpecKind {
  Integer, // 12, 30_008, 2M, 1e6
  Number,  // 3e-4
  Boolean, // true, false
  Text,
  Choice,        // one of `choices`
  IntegerList,   // [1M, 2M]
  TextList,      // [attention, mlp]
  IntegerOrText, // a number of tokens, a share such as 2%, or a named rule
};

struct SpecKey {
  llvm::StringLiteral path; // "model.moe.top_k"
  SpecKind kind;
  llvm::StringLiteral defaultText; // shown by the schema; empty: required or absent
  llvm::StringLiteral description; // one line
  llvm::StringLiteral choices;     // "a|b|c" for Choice, else empty
};

llvm::ArrayRef<SpecKey> specKeys();
/// Whether the section may be a list of sections with the same keys: "sparsity".
bool isSpecList(llvm::StringRef section);
/// The section of a path inside such a list ("sparsity" of "sparsity.1.density"); empty for any other path.
std::string specListOf(llvm::StringRef path);
/// The key of that path, or null. "sparsity.1.density" is the key "sparsity.density".
const SpecKey *findSpecKey(llvm::StringRef path);
/// Whether `path` is a section (a proper prefix of some key), e.g. "model.moe".
bool isSpecSection(llvm::StringRef path);
/// The known key or section nearest to `path` by edit distance; a match of the last word alone counts as
/// near.
std::string nearestSpecKey(llvm::StringRef path);
/// "expected an integer", ... for messages.
std::string expectedText(const SpecKey &key);
/// The table of all keys, for `sluice schema`.
std::string specSchemaText();

} // namespace sluice
