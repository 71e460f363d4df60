#include "frontends/cli/Compiler.h"
#include "frontends/cli/CompilerCommands.h"

#include "runtime/support/File.h"

#include <chrono>
#include <cstdio>

namespace sluice::cli {
namespace {

std::string phaseList() {
  std::string text;
  for (const PhaseInfo &info : phases())
    text += "\n    " + info.name.str() + std::string(info.name.size() < 18 ? 18 - info.name.size() : 1, ' ') +
            info.description.str();
  return text;
}

struct CompileFlags {
  std::string model, output, to;
  std::vector<std::string> assignments;
  CompilerOptions options;
};

Status compileOnce(const CompileFlags &flags) {
  auto start = std::chrono::steady_clock::now();
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(flags.model, flags.assignments));
  if (!flags.to.empty()) {
    std::optional<Phase> phase = phaseByName(flags.to);
    if (!phase)
      return usageError("--to: expected a phase, found '", flags.to, "'; the phases are", phaseList());
    SLUICE_RETURN_IF_ERROR(compiler.run(model, *phase, flags.options));
    std::string text = printModule(*model.module);
    if (!flags.output.empty() && flags.output != "-")
      return writeFileAtomically(flags.output, text);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  if (flags.output.empty())
    return usageError("compile: expected -o FILE.slx (or --to=PHASE to print the graph)");
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(model, flags.options));
  SLUICE_RETURN_IF_ERROR(writeFileAtomically(flags.output, bytes));
  std::printf("%s: %.1f KiB in %.2f s\n", flags.output.c_str(), static_cast<double>(bytes.size()) / 1024,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return absl::OkStatus();
}

} // namespace

void addCompileCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand("compile", "Compile a model to an executable");
  auto flags = std::make_shared<CompileFlags>();
  command->add_option("MODEL", flags->model, "A spec (.yaml), a graph (.mlir) or a config.json")->required();
  command->add_option("--bind", flags->options.bindings, "Sizes of the named dimensions: batch=8,seq=256");
  command->add_option("-o,--output", flags->output, "File to write");
  command->add_option("--set", flags->assignments, "Change a key of the spec: --set model.layers=8")->allow_extra_args(false);
  command->add_option("--to", flags->to, "Stop after a phase and print the graph; phases:" + phaseList());
  command->add_option("--save-temps", flags->options.saveTemps, "Folder for the graph after each phase");
  command->add_option("--activation-budget", flags->options.saveBudget,
                      "Bytes of activations to keep for the backward; more is recomputed (0: keep all)");
  command->add_flag("--explain", flags->options.explain, "Say what was fused, saved, recomputed, and why not");
  command->add_flag("--timing", flags->options.timing, "Print the seconds of each phase");
  command->callback([=, &invocation] { invocation.action = [=] { return compileOnce(*flags); }; });
}

ModelResolver compilingResolver() {
  return [](const std::string &path, const std::vector<std::string> &assignments,
            int64_t vocabulary) -> StatusOr<ResolvedModel> {
    ResolvedModel resolved;
    if (isExecutable(path)) {
      SLUICE_ASSIGN_OR_RETURN(resolved.executable, loadExecutable(path));
      return resolved;
    }
    Compiler compiler;
    SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(path, assignments, vocabulary));
    resolved.spec = model.spec;
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(model, CompilerOptions()));
    SLUICE_ASSIGN_OR_RETURN(resolved.executable, parseExecutable(std::move(bytes), path));
    return resolved;
  };
}

} // namespace sluice::cli
