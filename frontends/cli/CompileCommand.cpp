#include "frontends/cli/Compiler.h"
#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/HelpFormatter.h"
#include "frontends/cli/Paths.h"

#include "runtime/support/File.h"

#include <chrono>
#include <cstdio>

namespace sluice::cli {
namespace {

std::string phaseList() {
  constexpr size_t column = 21;
  std::string text;
  for (const PhaseInfo &info : phases()) {
    std::string line = "\n  " + info.name.str();
    line.resize(column + 1, ' ');
    text += line + wrapText(info.description.str(), helpWidth, column);
  }
  return text;
}

struct CompileFlags {
  std::string model, output, to;
  std::vector<std::string> assignments;
  CompilerOptions options;
};

Status compileOnce(const CompileFlags &flags) {
  auto start = std::chrono::steady_clock::now();
  SLUICE_RETURN_IF_ERROR(requireOutput("--output", flags.output));
  if (flags.output.empty() && flags.to.empty())
    return usageError("compile: expected -o FILE.slx (or --to=PHASE to print the graph)");
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
  command->add_option("MODEL", flags->model, "A spec (.yaml), a graph (.mlir) or a config.json")
      ->type_name("MODEL")
      ->required();
  command->add_option("--bind", flags->options.bindings, "Sizes of the named dimensions: batch=8,seq=256")
      ->type_name("SIZES");
  command->add_option("-o,--output", flags->output, "File to write (.slx; with --to a graph)")
      ->type_name("FILE");
  command
      ->add_option("--target", flags->options.cudaTargets,
                   "Add code for GPUs: cuda:sm_80,cuda:sm_90a (the CPU is always a target; PTX for the "
                   "lowest is added)")
      ->type_name("TARGETS")
      ->delimiter(',');
  command->add_option("--set", flags->assignments, "Change a key of the spec: --set model.layers=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--to", flags->to, "Stop after a phase (listed below) and print the graph")
      ->type_name("PHASE");
  command->add_option("--save-temps", flags->options.saveTemps, "Folder for the graph after each phase")
      ->type_name("FOLDER");
  command
      ->add_option("--activation-budget", flags->options.saveBudget,
                   "Bytes of activations to keep for the backward; more is recomputed (0: keep all)")
      ->type_name("N");
  command->add_flag("--explain", flags->options.explain,
                    "Say what was fused, saved, recomputed, and why not");
  command->add_flag("--timing", flags->options.timing, "Print the seconds of each phase");
  command->footer("Phases of --to:" + phaseList());
  command->callback([=, &invocation] { invocation.action = [=] { return compileOnce(*flags); }; });
}

ModelResolver compilingResolver() {
  return [](const std::string &path, const std::vector<std::string> &assignments,
            int64_t vocabulary) -> StatusOr<ResolvedModel> {
    if (isExecutable(path))
      return ResolvedModel{"", [=](const std::vector<std::string> &) { return loadExecutable(path); }};
    auto compiler = std::make_shared<Compiler>();
    SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler->load(path, assignments, vocabulary));
    auto model = std::make_shared<LoadedModel>(std::move(loaded));
    return ResolvedModel{model->spec, [=](const std::vector<std::string> &targets) -> StatusOr<Executable> {
                           CompilerOptions options;
                           options.cudaTargets = targets;
                           SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler->compile(*model, options));
                           return parseExecutable(std::move(bytes), path);
                         }};
  };
}

} // namespace sluice::cli
