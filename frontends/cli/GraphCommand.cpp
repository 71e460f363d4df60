#include "frontends/cli/Compiler.h"
#include "frontends/cli/CompilerCommands.h"

#include "frontends/cli/Paths.h"
#include "frontends/spec/SpecKeys.h"
#include "runtime/support/File.h"

#include <cstdio>

namespace sluice::cli {

void addGraphCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command =
      app.add_subcommand("graph", "Turn a spec or a Hugging Face config into a readable graph");
  struct Flags {
    std::string model, output = "-";
    std::vector<std::string> assignments;
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("MODEL", flags->model, "A spec (.yaml), a graph (.mlir) or a config.json")
      ->type_name("MODEL")
      ->required();
  command->add_option("-o,--output", flags->output, "File to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--set", flags->assignments, "Change a key of the spec: --set model.layers=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback([=, &invocation] {
    invocation.action = [=]() -> Status {
      SLUICE_RETURN_IF_ERROR(requireOutput("--output", flags->output));
      Compiler compiler;
      SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(flags->model, flags->assignments));
      std::string text = printModule(*model.module);
      if (flags->output != "-")
        return writeFileAtomically(flags->output, text);
      std::fwrite(text.data(), 1, text.size(), stdout);
      return absl::OkStatus();
    };
  });
}

void addSchemaCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand("schema", "List every key of a spec with its default");
  command->callback([&invocation] {
    invocation.action = []() -> Status {
      std::fputs(specSchemaText().c_str(), stdout);
      return absl::OkStatus();
    };
  });
}

} // namespace sluice::cli
