#include "runtime/device/cudasim/ptx/Statements.h"

#include "runtime/device/cudasim/ptx/Declarations.h"

namespace sluice::cudasim::ptx {

namespace {

constexpr int kMaximumDepth = 64;
constexpr size_t kMaximumInstructions = 4'000'000;
constexpr size_t kMaximumElements = 256;

class BodyParser {
public:
  BodyParser(TokenReader &reader, Function &function) : reader(reader), function(function) {}

  Status run() {
    SLUICE_RETURN_IF_ERROR(reader.expect('{'));
    function.scopes.push_back({});
    int depth = 1;
    while (depth > 0) {
      if (reader.atEnd())
        return reader.error("'}'");
      if (reader.accept('{')) {
        if (++depth > kMaximumDepth)
          return reader.error(concat("at most ", kMaximumDepth, " nested scopes"));
        function.scopes.push_back({scope});
        scope = static_cast<int>(function.scopes.size()) - 1;
      } else if (reader.accept('}')) {
        --depth;
        scope = function.scopes[scope].parent;
      } else {
        SLUICE_RETURN_IF_ERROR(parseStatement());
      }
    }
    return absl::OkStatus();
  }

private:
  Scope &names() { return function.scopes[scope]; }

  Status parseStatement() {
    const Token token = reader.peek();
    if (token.is(';')) {
      reader.take();
      return absl::OkStatus();
    }
    if (token.kind == TokenKind::Dotted)
      return parseDirective();
    if (token.kind == TokenKind::Identifier && reader.peek(1).is(':')) {
      if (!names().labels.emplace(std::string(token.text), function.instructions.size()).second)
        return reader.error("a label that is not there yet");
      reader.take();
      reader.take();
      return absl::OkStatus();
    }
    return parseInstruction();
  }

  Status parseDirective() {
    const Token directive = reader.take();
    if (directive.text == "loc")
      return parseLocation(directive.line);
    if (directive.text == "reg")
      return parseRegisters(reader, names());
    if (directive.text == "pragma") {
      while (!reader.peek().is(';') && !reader.atEnd())
        reader.take();
      return reader.expect(';');
    }
    const std::optional<Space> space = spaceOf(directive.text);
    if (!space)
      return reader.error(concat("a directive that is known instead of '.", directive.text, "' before"));
    do {
      SLUICE_ASSIGN_OR_RETURN(Variable variable, parseVariable(reader, *space));
      names().variables[variable.name] = variable;
    } while (reader.accept(','));
    return reader.expect(';');
  }

  /// ".loc file line column, function_name ..., inlined_at ...": it ends with its line.
  Status parseLocation(int line) {
    SLUICE_ASSIGN_OR_RETURN(const uint64_t file, reader.expectInteger("a file's number"));
    SLUICE_ASSIGN_OR_RETURN(const uint64_t sourceLineNumber, reader.expectInteger("a line"));
    // Line 0 is code that the compiler made itself; the last real line says more.
    if (sourceLineNumber != 0) {
      sourceFile = static_cast<int>(file);
      sourceLine = static_cast<int>(sourceLineNumber);
    }
    while (!reader.atEnd() && reader.peek().line == line)
      reader.take();
    return absl::OkStatus();
  }

  Status parseInstruction() {
    Instruction instruction;
    instruction.scope = scope;
    instruction.sourceFile = sourceFile;
    instruction.sourceLine = sourceLine;
    if (reader.accept('@')) {
      instruction.guardNegated = reader.accept('!');
      SLUICE_ASSIGN_OR_RETURN(instruction.guard, reader.expectIdentifier("a predicate"));
    }
    instruction.line = reader.peek().line;
    SLUICE_ASSIGN_OR_RETURN(instruction.opcode, reader.expectIdentifier("an instruction"));
    while (reader.peek().kind == TokenKind::Dotted)
      instruction.modifiers.emplace_back(reader.take().text);
    while (!reader.peek().is(';')) {
      SLUICE_ASSIGN_OR_RETURN(Operand operand, parseOperand(0));
      instruction.operands.push_back(std::move(operand));
      if (instruction.operands.size() > kMaximumElements)
        return reader.error(concat("at most ", kMaximumElements, " operands"));
      if (!reader.accept(','))
        break;
    }
    SLUICE_RETURN_IF_ERROR(reader.expect(';'));
    function.instructions.push_back(std::move(instruction));
    if (function.instructions.size() > kMaximumInstructions)
      return reader.error(concat("at most ", kMaximumInstructions, " instructions"));
    return absl::OkStatus();
  }

  Status parseElements(std::vector<Operand> &elements, char close, int depth) {
    while (!reader.accept(close)) {
      SLUICE_ASSIGN_OR_RETURN(Operand element, parseOperand(depth + 1));
      elements.push_back(std::move(element));
      if (elements.size() > kMaximumElements)
        return reader.error(concat("at most ", kMaximumElements, " elements"));
      if (!reader.accept(',') && !reader.peek().is(close))
        return reader.error(concat("',' or '", std::string(1, close), "'"));
    }
    return absl::OkStatus();
  }

  StatusOr<Operand> parseOperand(int depth) {
    if (depth > 3)
      return reader.error("operands that are nested less deeply");
    Operand operand;
    if (reader.accept('{')) {
      operand.kind = Operand::Kind::Vector;
      SLUICE_RETURN_IF_ERROR(parseElements(operand.elements, '}', depth));
      return operand;
    }
    if (reader.accept('(')) {
      operand.kind = Operand::Kind::List;
      SLUICE_RETURN_IF_ERROR(parseElements(operand.elements, ')', depth));
      return operand;
    }
    if (reader.accept('['))
      return parseAddress(depth);
    operand.negated = reader.accept('!');
    const bool minus = !operand.negated && reader.accept('-');
    const Token token = reader.peek();
    switch (token.kind) {
    case TokenKind::Identifier:
      if (minus)
        return reader.error("a number after '-'");
      reader.take();
      if (token.text == "_")
        return operand;
      operand.kind = Operand::Kind::Name;
      operand.name = std::string(token.text);
      if (reader.accept('|')) {
        SLUICE_ASSIGN_OR_RETURN(operand.second, reader.expectIdentifier("a predicate after '|'"));
      } else if (reader.accept('+')) {
        SLUICE_ASSIGN_OR_RETURN(operand.bits, reader.expectInteger("an offset"));
      }
      return operand;
    case TokenKind::Integer:
    case TokenKind::Float32:
    case TokenKind::Float64:
      reader.take();
      operand.kind = token.kind == TokenKind::Integer   ? Operand::Kind::Integer
                     : token.kind == TokenKind::Float32 ? Operand::Kind::Float32
                                                        : Operand::Kind::Float64;
      operand.bits = token.bits;
      if (minus && token.kind == TokenKind::Integer)
        operand.bits = uint64_t(0) - token.bits;
      else if (minus)
        operand.bits ^= token.kind == TokenKind::Float32 ? uint64_t(1) << 31 : uint64_t(1) << 63;
      return operand;
    default:
      return reader.error("an operand");
    }
  }

  /// After '[': base, base+offset, base+-offset, an absolute address; further parts after a comma.
  StatusOr<Operand> parseAddress(int depth) {
    Operand operand;
    operand.kind = Operand::Kind::Address;
    if (reader.peek().kind == TokenKind::Identifier)
      operand.name = std::string(reader.take().text);
    else if (reader.peek().kind == TokenKind::Integer)
      operand.bits = reader.take().bits;
    else
      return reader.error("an address");
    if (reader.peek().is('+') || reader.peek().is('-')) {
      bool minus = reader.take().is('-');
      minus ^= reader.accept('-');
      SLUICE_ASSIGN_OR_RETURN(const uint64_t offset, reader.expectInteger("an offset"));
      operand.bits += minus ? uint64_t(0) - offset : offset;
    }
    if (reader.accept(','))
      SLUICE_RETURN_IF_ERROR(parseElements(operand.elements, ']', depth));
    else
      SLUICE_RETURN_IF_ERROR(reader.expect(']'));
    return operand;
  }

  TokenReader &reader;
  Function &function;
  int scope = 0;
  int sourceFile = 0, sourceLine = 0;
};

} // namespace

Status parseBody(TokenReader &reader, Function &function) {
  return BodyParser(reader, function).run();
}

} // namespace sluice::cudasim::ptx
