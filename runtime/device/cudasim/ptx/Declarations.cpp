#include "runtime/device/cudasim/ptx/Declarations.h"

#include <cstring>

namespace sluice::cudasim::ptx {

namespace {

constexpr uint64_t kMaximumVariableBytes = uint64_t(1) << 30;
constexpr uint64_t kMaximumRegisters = 1 << 20;

Status parseInitialValue(TokenReader &reader, Variable &variable, uint32_t elementBytes) {
  int depth = 0;
  do {
    if (reader.accept('{')) {
      if (++depth > 16)
        return reader.error("at most 16 nested braces");
      continue;
    }
    while (depth > 0 && reader.accept('}'))
      --depth;
    if (depth == 0 && !variable.initial.empty())
      break;
    if (reader.accept(','))
      continue;
    const bool negative = reader.accept('-');
    const Token token = reader.peek();
    if (token.kind != TokenKind::Integer && token.kind != TokenKind::Float32 &&
        token.kind != TokenKind::Float64)
      return reader.error("a number (addresses as initial values are not simulated)");
    reader.take();
    if (variable.initial.size() + elementBytes > variable.bytes)
      return reader.error(concat("at most ", variable.bytes, " bytes of initial value"));
    const uint64_t bits = negative ? uint64_t(0) - token.bits : token.bits;
    uint8_t bytes[16] = {};
    std::memcpy(bytes, &bits, 8);
    variable.initial.insert(variable.initial.end(), bytes, bytes + elementBytes);
    while (depth > 0 && reader.accept('}'))
      --depth;
  } while (depth > 0 && !reader.atEnd());
  return depth == 0 ? absl::OkStatus() : reader.error("'}'");
}

} // namespace

std::optional<Space> spaceOf(std::string_view directive) {
  if (directive == "reg")
    return Space::Register;
  if (directive == "param")
    return Space::Param;
  if (directive == "local")
    return Space::Local;
  if (directive == "shared")
    return Space::Shared;
  if (directive == "global")
    return Space::Global;
  if (directive == "const")
    return Space::Const;
  return std::nullopt;
}

StatusOr<Variable> parseVariable(TokenReader &reader, Space space) {
  Variable variable;
  variable.space = space;
  variable.line = reader.peek().line;
  uint32_t vector = 1;
  uint64_t alignment = 0;
  while (reader.peek().kind == TokenKind::Dotted) {
    const std::string_view word = reader.peek().text;
    if (word == "align") {
      reader.take();
      SLUICE_ASSIGN_OR_RETURN(alignment, reader.expectInteger("an alignment"));
      if (alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0)
        return reader.error("an alignment that is a power of two up to 4096 before");
    } else if (word == "v2" || word == "v4") {
      vector = word == "v2" ? 2 : 4;
      reader.take();
    } else if (word == "ptr" || spaceOf(word) || word == "attribute" || word == "managed") {
      reader.take(); // what a pointer parameter points to
    } else if (typeBytes(word) != 0) {
      variable.type = std::string(reader.take().text);
    } else {
      return reader.error("a type");
    }
  }
  if (variable.type.empty())
    return reader.error("a type");
  SLUICE_ASSIGN_OR_RETURN(variable.name, reader.expectIdentifier("a name"));
  const uint32_t elementBytes = typeBytes(variable.type);
  variable.bytes = uint64_t(elementBytes) * vector;
  variable.alignment = alignment != 0 ? static_cast<uint32_t>(alignment) : elementBytes * vector;
  while (reader.accept('[')) {
    uint64_t count = 0;
    if (reader.peek().kind == TokenKind::Integer)
      count = reader.take().bits;
    SLUICE_RETURN_IF_ERROR(reader.expect(']'));
    if (count != 0 && variable.bytes > kMaximumVariableBytes / count)
      return reader.error(concat("a variable of at most ", kMaximumVariableBytes, " bytes before"));
    variable.bytes *= count;
  }
  if (reader.accept('='))
    SLUICE_RETURN_IF_ERROR(parseInitialValue(reader, variable, elementBytes));
  return variable;
}

Status parseRegisters(TokenReader &reader, Scope &scope) {
  Variable variable;
  variable.space = Space::Register;
  variable.line = reader.peek().line;
  while (reader.peek().kind == TokenKind::Dotted) {
    if (reader.peek().isDotted("v2") || reader.peek().isDotted("v4"))
      return reader.error("scalar registers (vector registers are not simulated)");
    variable.type = std::string(reader.take().text);
  }
  variable.bytes = typeBytes(variable.type);
  if (variable.bytes == 0 || variable.bytes > 8)
    return reader.error(concat("a register type of 8 to 64 bits before, not '.", variable.type, "',"));
  do {
    SLUICE_ASSIGN_OR_RETURN(variable.name, reader.expectIdentifier("a register's name"));
    if (reader.accept('<')) {
      SLUICE_ASSIGN_OR_RETURN(const uint64_t count, reader.expectInteger("a count of registers"));
      SLUICE_RETURN_IF_ERROR(reader.expect('>'));
      if (count > kMaximumRegisters)
        return reader.error(concat("at most ", kMaximumRegisters, " registers before"));
      scope.registerRanges[variable.name] = {variable, static_cast<uint32_t>(count)};
    } else {
      scope.variables[variable.name] = variable;
    }
  } while (reader.accept(','));
  return reader.expect(';');
}

} // namespace sluice::cudasim::ptx
