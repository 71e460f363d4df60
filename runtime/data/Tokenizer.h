// Text to token ids and back: a SentencePiece BPE with byte fallback and no normalisation, so that any valid
// UTF-8 text comes back byte for byte.
#pragma once

#include "runtime/data/SentencePiece.h"
#include "runtime/support/Status.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The text that one token stands for, in bytes and in characters (Unicode code points).
/// Rule: a text piece covers its own bytes and characters; a byte piece covers one byte, and one character
/// if that byte starts a character; the delimiter and other control pieces cover nothing. The sums over the
/// tokens of a document are therefore exactly the document's bytes and characters.
struct TokenLength {
  uint32_t bytes = 0;
  uint32_t characters = 0;
};

class Tokenizer {
public:
  /// Smallest vocabulary that can be trained: unknown, delimiter, 256 bytes, and room for a few characters.
  static constexpr int minimumVocabulary = 272;

  /// Trains on the texts that `forEachText` passes to its argument (called twice, the same texts each time;
  /// all valid UTF-8). `vocabulary` is exact. The most frequent characters, at most half of the room above
  /// the bytes, get a piece of their own; rarer ones are written as bytes. Pieces never cross a line's end.
  /// Errors: usage, when the vocabulary is too small, or larger than the text supports.
  using TextVisitor = std::function<void(std::string_view text)>;
  static StatusOr<Tokenizer> train(const std::function<void(const TextVisitor &)> &forEachText,
                                   int vocabulary);

  /// From the bytes of a model file; `name` stands for it in messages. Bad input when it is no SentencePiece
  /// model, has no end-of-sentence piece, or does not give back a probe text byte for byte.
  static StatusOr<Tokenizer> fromBytes(std::string bytes, const std::string &name);
  static StatusOr<Tokenizer> load(const std::string &path);
  Status save(const std::string &path) const;

  /// Appends the ids of `text` (valid UTF-8). Lines are encoded one by one, so encode(a + b) is encode(a)
  /// then encode(b) when `a` ends with a newline. May be called from several threads.
  Status encode(std::string_view text, std::vector<int32_t> &ids) const;
  StatusOr<std::vector<int32_t>> encode(std::string_view text) const;
  /// The text of `ids`; control and unknown pieces stand for nothing. Ids outside the vocabulary are a usage
  /// error. A part of a text may end inside a character (byte pieces).
  StatusOr<std::string> decode(const int32_t *ids, size_t count) const;
  StatusOr<std::string> decode(const std::vector<int32_t> &ids) const {
    return decode(ids.data(), ids.size());
  }

  int vocabulary() const { return static_cast<int>(texts.size()); }
  /// The id that ends every document (SentencePiece's end of sentence).
  int32_t delimiter() const { return delimiterId; }
  /// SHA-256 of the model file, 64 hex digits.
  const std::string &hash() const { return sha256; }
  const std::string &modelBytes() const { return bytes; }
  /// One entry an id.
  const std::vector<TokenLength> &lengths() const { return tokenLengths; }

private:
  sentencepiece::Model model;
  std::string bytes, sha256;
  std::vector<std::string> texts; // what each id decodes to
  std::vector<TokenLength> tokenLengths;
  std::array<int32_t, 256> byteIds{};
  int32_t delimiterId = 0;
};

} // namespace sluice
