// Cuts PTX text into tokens that know their line.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::cudasim::ptx {

enum class TokenKind : uint8_t {
  Identifier, // add, %r1, %tid.x, $L__BB0_1
  Dotted,     // .f32, .shared::cta: a directive or a modifier; the text is without its dot
  Integer,    // value in `bits`
  Float32,    // 0f3F800000, value in `bits`
  Float64,    // 0d3FF0000000000000 or 1.5, value in `bits`
  String,     // text without its quotes
  Punctuation,
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  char punctuation = 0;
  int line = 0;
  std::string_view text; // points into the source
  uint64_t bits = 0;

  bool is(char character) const { return kind == TokenKind::Punctuation && punctuation == character; }
  bool isWord(std::string_view word) const { return kind == TokenKind::Identifier && text == word; }
  bool isDotted(std::string_view word) const { return kind == TokenKind::Dotted && text == word; }
};

/// All tokens of `source`, closed by one of kind End. `source` must outlive them; it is not trusted. `file`
/// is the name for messages. Errors (bad input): a character, number or string that PTX does not have.
StatusOr<std::vector<Token>> tokenize(std::string_view source, std::string_view file);

} // namespace sluice::cudasim::ptx
