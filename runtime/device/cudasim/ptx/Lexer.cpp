#include "runtime/device/cudasim/ptx/Lexer.h"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>

namespace sluice::cudasim::ptx {

namespace {

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool isWordPart(char c) {
  return isDigit(c) || (isWordStart(c) && c != '%');
}

class Lexer {
public:
  Lexer(std::string_view source, std::string_view file) : source(source), file(file) {}

  StatusOr<std::vector<Token>> run() {
    std::vector<Token> tokens;
    while (true) {
      SLUICE_RETURN_IF_ERROR(skipBlanks());
      if (at >= source.size())
        break;
      SLUICE_ASSIGN_OR_RETURN(Token token, next());
      tokens.push_back(token);
    }
    tokens.push_back({TokenKind::End, 0, line, {}, 0});
    return tokens;
  }

private:
  char peek(size_t ahead = 0) const { return at + ahead < source.size() ? source[at + ahead] : '\0'; }

  Status error(std::string_view what) const {
    return badInputError(file, ":", line, ": expected PTX, found ", what);
  }

  Status skipBlanks() {
    while (at < source.size()) {
      const char c = source[at];
      if (c == '\n') {
        ++line;
        ++at;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++at;
      } else if (c == '/' && peek(1) == '/') {
        while (at < source.size() && source[at] != '\n')
          ++at;
      } else if (c == '/' && peek(1) == '*') {
        const size_t end = source.find("*/", at + 2);
        if (end == std::string_view::npos)
          return error("a comment that never ends");
        for (; at < end + 2; ++at)
          line += source[at] == '\n';
      } else {
        break;
      }
    }
    return absl::OkStatus();
  }

  StatusOr<Token> next() {
    const char c = peek();
    if (isWordStart(c))
      return word();
    if (c == '.' && (isWordStart(peek(1)) || isDigit(peek(1))))
      return dotted();
    if (isDigit(c))
      return number();
    if (c == '"')
      return string();
    constexpr std::string_view known = "{}[]()<>,;:|!+-*=@?.&~^";
    if (known.find(c) == std::string_view::npos)
      return error(concat("character ", static_cast<int>(static_cast<unsigned char>(c))));
    return Token{TokenKind::Punctuation, c, line, source.substr(at++, 1), 0};
  }

  Token word() {
    const size_t start = at++;
    while (isWordPart(peek()))
      ++at;
    // Special registers and vector elements are one name: %tid.x.
    if (source[start] == '%' && peek() == '.' && peek(1) >= 'w' && peek(1) <= 'z' && !isWordPart(peek(2)))
      at += 2;
    return {TokenKind::Identifier, 0, line, source.substr(start, at - start), 0};
  }

  Token dotted() {
    const size_t start = ++at;
    while (isWordPart(peek()) || (peek() == ':' && peek(1) == ':' && isWordPart(peek(2))))
      at += peek() == ':' ? 2 : 1;
    return {TokenKind::Dotted, 0, line, source.substr(start, at - start), 0};
  }

  StatusOr<Token> number() {
    const size_t start = at;
    while (isWordPart(peek()))
      ++at;
    if (peek() == '.' && isDigit(peek(1))) {
      ++at;
      while (isWordPart(peek()) || ((peek() == '+' || peek() == '-') && (source[at - 1] | 32) == 'e'))
        ++at;
      const std::string text(source.substr(start, at - start));
      char *end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (*end != '\0')
        return error(concat("number '", text, "'"));
      return Token{TokenKind::Float64, 0, line, source.substr(start, at - start),
                   std::bit_cast<uint64_t>(value)};
    }
    const std::string_view whole = source.substr(start, at - start);
    std::string_view digits = whole;
    TokenKind kind = TokenKind::Integer;
    int base = 10;
    const char prefix = whole.size() > 1 && whole[0] == '0' ? static_cast<char>(whole[1] | 32) : '\0';
    if ((prefix == 'f' && whole.size() == 10) || (prefix == 'd' && whole.size() == 18)) {
      kind = prefix == 'f' ? TokenKind::Float32 : TokenKind::Float64;
      base = 16;
      digits.remove_prefix(2);
    } else {
      if (digits.back() == 'U' || digits.back() == 'u')
        digits.remove_suffix(1);
      if (prefix == 'x' || prefix == 'b') {
        base = prefix == 'x' ? 16 : 2;
        digits.remove_prefix(2);
      } else if (digits.size() > 1 && digits[0] == '0') {
        base = 8;
      }
    }
    uint64_t value = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (failed != std::errc() || end != digits.data() + digits.size() || digits.empty())
      return error(concat("number '", whole.substr(0, 40), "'"));
    return Token{kind, 0, line, whole, value};
  }

  StatusOr<Token> string() {
    const size_t start = at + 1;
    const size_t end = source.find_first_of("\"\n", start);
    if (end == std::string_view::npos || source[end] == '\n')
      return error("a string that never ends");
    at = end + 1;
    return Token{TokenKind::String, 0, line, source.substr(start, end - start), 0};
  }

  std::string_view source, file;
  size_t at = 0;
  int line = 1;
};

} // namespace

StatusOr<std::vector<Token>> tokenize(std::string_view source, std::string_view file) {
  // The driver's entry takes zero-terminated text; NVRTC counts the terminator.
  while (!source.empty() && source.back() == '\0')
    source.remove_suffix(1);
  return Lexer(source, file).run();
}

} // namespace sluice::cudasim::ptx
