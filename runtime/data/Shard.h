// A token shard: one file with a checked header, the token ids of many documents, and a table of the
// documents.
//
// Little-endian. Header of 144 bytes: magic "SLUSHARD", u32 version, u32 id width (2 or 4), u64 vocabulary,
// u32 delimiter, u32 zero, u64 documents, u64 tokens, SHA-256 of the tokenizer's file (32 bytes), SHA-256 of
// all bytes after the header (32 bytes), 24 bytes of zero, u64 xxHash3 of the 136 bytes before it. Then the
// ids, padded with zero bytes to a multiple of 8. Then one entry a document: u64 first token, u64 bytes, u64
// characters. Documents are stored without the delimiter; whoever joins them adds it.
#pragma once

#include "runtime/support/File.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The ids of one document inside a mapped shard; valid as long as the shard is.
class DocumentView {
public:
  DocumentView(const uint8_t *ids, int width, uint64_t tokens, uint64_t bytes, uint64_t characters)
      : tokens(tokens), bytes(bytes), characters(characters), ids(ids), width(width) {}
  /// Writes tokens [first, first + count) as int32; the range must lie inside the document.
  void copy(uint64_t first, uint64_t count, int32_t *out) const;
  int32_t operator[](uint64_t token) const {
    int32_t id;
    copy(token, 1, &id);
    return id;
  }

  const uint64_t tokens, bytes, characters;

private:
  const uint8_t *ids;
  int width;
};

/// An open shard: mapped, and checked whole, so that nothing needs checking later.
class Shard {
public:
  /// Maps and checks `path`: the header, the file's size, the content hash, every id against the vocabulary,
  /// the document table. Errors: not found; bad input with the path and what is wrong.
  static StatusOr<Shard> open(const std::string &path);

  int idWidth() const { return width; }
  uint64_t vocabulary() const { return vocabularySize; }
  int32_t delimiter() const { return delimiterId; }
  uint64_t documents() const { return documentCount; }
  uint64_t tokens() const { return tokenCount; }
  const std::string &tokenizerHash() const { return tokenizerSha256; }
  const std::string &contentHash() const { return contentSha256; }
  /// 0 <= index < documents().
  DocumentView document(uint64_t index) const;

private:
  Status check(const std::string &path);
  uint64_t tableEntry(uint64_t index, int field) const;

  MappedFile file;
  const uint8_t *ids = nullptr;
  const uint8_t *table = nullptr;
  int width = 0;
  uint64_t vocabularySize = 0, documentCount = 0, tokenCount = 0;
  int32_t delimiterId = 0;
  std::string tokenizerSha256, contentSha256;
};

/// Collects documents in memory and writes them as one shard.
class ShardWriter {
public:
  /// `tokenizerHash`: 64 hex digits. Ids take 2 bytes where the vocabulary allows.
  ShardWriter(uint64_t vocabulary, int32_t delimiter, std::string tokenizerHash);
  /// Adds a document of `count` > 0 ids, each below the vocabulary, that covers `bytes` and `characters` of
  /// text.
  void add(const int32_t *ids, uint64_t count, uint64_t bytes, uint64_t characters);
  uint64_t tokens() const { return tokenCount; }
  uint64_t documents() const { return table.size() / 3; }
  /// Writes the file and returns its content hash; the writer is empty afterwards.
  StatusOr<std::string> write(const std::string &path);

private:
  uint64_t vocabulary;
  int32_t delimiter;
  std::string tokenizerHash;
  int width;
  std::string ids;
  std::vector<uint64_t> table;
  uint64_t tokenCount = 0;
};

} // namespace sluice
