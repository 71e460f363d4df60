// The parser's place among the tokens, and the errors that name it.
#pragma once

#include "runtime/device/cudasim/ptx/Lexer.h"

#include <string>

namespace sluice::cudasim::ptx {

class TokenReader {
public:
  TokenReader(std::vector<Token> tokens, std::string file)
      : fileName(std::move(file)), tokens(std::move(tokens)) {}

  const Token &peek(size_t ahead = 0) const {
    return tokens[at + ahead < tokens.size() ? at + ahead : tokens.size() - 1];
  }
  Token take() {
    const Token token = peek();
    if (at + 1 < tokens.size())
      ++at;
    return token;
  }
  bool atEnd() const { return peek().kind == TokenKind::End; }
  /// Takes the next token if it is this character.
  bool accept(char punctuation) {
    if (!peek().is(punctuation))
      return false;
    take();
    return true;
  }
  Status expect(char punctuation) {
    return accept(punctuation) ? absl::OkStatus() : error(concat("'", std::string(1, punctuation), "'"));
  }
  StatusOr<std::string> expectIdentifier(std::string_view what) {
    if (peek().kind != TokenKind::Identifier)
      return error(what);
    return std::string(take().text);
  }
  StatusOr<uint64_t> expectInteger(std::string_view what) {
    if (peek().kind != TokenKind::Integer)
      return error(what);
    return take().bits;
  }

  /// "file:line: expected WHAT, found TOKEN" at the next token.
  Status error(std::string_view expectation) const {
    const Token &token = peek();
    return badInputError(fileName, ":", token.line, ": expected ", expectation, ", found ",
                         token.kind == TokenKind::End ? std::string("the end of the file")
                                                      : concat("'", token.text.substr(0, 60), "'"));
  }
  const std::string &file() const { return fileName; }

private:
  std::string fileName;
  std::vector<Token> tokens;
  size_t at = 0;
};

} // namespace sluice::cudasim::ptx
