#include "runtime/device/cudasim/ptx/Parser.h"

#include "runtime/device/cudasim/ptx/Declarations.h"
#include "runtime/device/cudasim/ptx/Statements.h"

namespace sluice::cudasim::ptx {

namespace {

constexpr size_t kMaximumSource = size_t(256) << 20;

class ModuleParser {
public:
  explicit ModuleParser(TokenReader &reader) : reader(reader) { module.file = reader.file(); }

  StatusOr<Module> run() {
    if (!reader.peek().isDotted("version"))
      return reader.error("'.version', with which every PTX module begins,");
    while (!reader.atEnd())
      SLUICE_RETURN_IF_ERROR(parseTopLevel());
    return std::move(module);
  }

private:
  Status parseTopLevel() {
    if (reader.accept(';'))
      return absl::OkStatus();
    if (reader.peek().kind != TokenKind::Dotted)
      return reader.error("a directive");
    bool isExternal = false;
    while (reader.peek().isDotted("visible") || reader.peek().isDotted("extern") ||
           reader.peek().isDotted("weak") || reader.peek().isDotted("common"))
      isExternal |= reader.take().isDotted("extern");
    const Token directive = reader.peek();
    const std::string_view word = directive.kind == TokenKind::Dotted ? directive.text : "";
    if (word == "version" || word == "target" || word == "address_size" || word == "pragma")
      return parseHeader();
    if (word == "file")
      return parseFile();
    if (word == "section")
      return skipSection();
    if (word == "entry" || word == "func")
      return parseFunction();
    const std::optional<Space> space = spaceOf(word);
    if (!space || *space == Space::Register || *space == Space::Param || *space == Space::Local)
      return reader.error("a variable or a function");
    reader.take();
    do {
      SLUICE_ASSIGN_OR_RETURN(Variable variable, parseVariable(reader, *space));
      variable.isExternal = isExternal;
      module.variables.push_back(std::move(variable));
    } while (reader.accept(','));
    return reader.expect(';');
  }

  Status parseHeader() {
    const Token directive = reader.take();
    std::string value;
    while (!reader.atEnd() && reader.peek().line == directive.line)
      value += std::string(reader.take().text);
    if (directive.text == "version")
      module.version = value;
    else if (directive.text == "target")
      module.target = value;
    else if (directive.text == "address_size" && value != "64")
      return badInputError(reader.file(), ":", directive.line, ": expected .address_size 64, found ",
                           value.substr(0, 40));
    return absl::OkStatus();
  }

  Status parseFile() {
    const int line = reader.take().line;
    SLUICE_ASSIGN_OR_RETURN(const uint64_t number, reader.expectInteger("a file's number"));
    if (reader.peek().kind != TokenKind::String)
      return reader.error("a file's name");
    module.sourceFiles[static_cast<int>(number)] = std::string(reader.take().text);
    while (!reader.atEnd() && reader.peek().line == line)
      reader.take();
    return absl::OkStatus();
  }

  /// Debug information: nothing that runs.
  Status skipSection() {
    while (!reader.peek().is('{')) {
      if (reader.atEnd())
        return reader.error("'{'");
      reader.take();
    }
    reader.take();
    while (!reader.accept('}')) {
      if (reader.atEnd())
        return reader.error("'}'");
      reader.take();
    }
    return absl::OkStatus();
  }

  Status parseParameters(std::vector<Variable> &parameters) {
    SLUICE_RETURN_IF_ERROR(reader.expect('('));
    while (!reader.accept(')')) {
      if (!reader.peek().isDotted("param") && !reader.peek().isDotted("reg"))
        return reader.error("'.param'");
      reader.take();
      SLUICE_ASSIGN_OR_RETURN(Variable parameter, parseVariable(reader, Space::Param));
      parameters.push_back(std::move(parameter));
      if (!reader.accept(',') && !reader.peek().is(')'))
        return reader.error("',' or ')'");
    }
    return absl::OkStatus();
  }

  Status parseThreads(uint32_t (&threads)[3]) {
    for (int dimension = 0; dimension < 3; ++dimension) {
      SLUICE_ASSIGN_OR_RETURN(const uint64_t count, reader.expectInteger("a count of threads"));
      if (count == 0 || count > 1024)
        return reader.error("1 to 1024 threads before");
      threads[dimension] = static_cast<uint32_t>(count);
      if (!reader.accept(',')) {
        for (int rest = dimension + 1; rest < 3; ++rest)
          threads[rest] = 1;
        break;
      }
    }
    return absl::OkStatus();
  }

  Status parseFunction() {
    Function function;
    function.isEntry = reader.take().isDotted("entry");
    function.line = reader.peek().line;
    if (reader.peek().is('('))
      SLUICE_RETURN_IF_ERROR(parseParameters(function.results));
    SLUICE_ASSIGN_OR_RETURN(function.name, reader.expectIdentifier("a function's name"));
    if (reader.peek().is('('))
      SLUICE_RETURN_IF_ERROR(parseParameters(function.parameters));
    while (reader.peek().kind == TokenKind::Dotted) {
      const Token directive = reader.take();
      if (directive.text == "maxntid") {
        SLUICE_RETURN_IF_ERROR(parseThreads(function.maxThreads));
      } else if (directive.text == "reqntid") {
        SLUICE_RETURN_IF_ERROR(parseThreads(function.requiredThreads));
      } else if (directive.text == "minnctapersm" || directive.text == "maxnreg") {
        SLUICE_RETURN_IF_ERROR(reader.expectInteger("a number").status());
      } else if (directive.text != "noreturn") {
        return badInputError(reader.file(), ":", directive.line,
                             ": expected a directive that is simulated, found '.", directive.text,
                             "' (clusters are not)");
      }
    }
    function.hasBody = reader.peek().is('{');
    if (function.hasBody)
      SLUICE_RETURN_IF_ERROR(parseBody(reader, function));
    else
      SLUICE_RETURN_IF_ERROR(reader.expect(';'));
    if (function.hasBody && module.findFunction(function.name))
      return badInputError(reader.file(), ":", function.line, ": expected a new name, found a second '",
                           function.name.substr(0, 100), "'");
    module.functions.push_back(std::move(function));
    return absl::OkStatus();
  }

  TokenReader &reader;
  Module module;
};

} // namespace

StatusOr<Module> parseModule(std::string_view source, std::string_view file) {
  if (source.size() > kMaximumSource)
    return badInputError(file, ": expected at most ", kMaximumSource, " bytes of PTX, found ", source.size());
  SLUICE_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source, file));
  TokenReader reader(std::move(tokens), std::string(file));
  return ModuleParser(reader).run();
}

} // namespace sluice::cudasim::ptx
