#include "frontends/cli/Compiler.h"
#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/ConventionStats.h"
#include "frontends/cli/LedgerFile.h"
#include "frontends/cli/Paths.h"

#include "dialects/ledger/Ledger.h"
#include "runtime/support/File.h"

#include <cstdio>

namespace sluice::cli {
namespace {

struct StatsFlags {
  std::string model, json, convention;
  std::vector<std::string> assignments;
  CompilerOptions options;
};

/// Counts the differentiated graph: forward, backward and optimizer as they are, before anything is fused.
Status statsOnce(const StatsFlags &flags) {
  SLUICE_RETURN_IF_ERROR(
      requireInput("MODEL", flags.model, "a spec, a graph, an executable or a config.json"));
  SLUICE_RETURN_IF_ERROR(requireOutput("--json", flags.json));
  std::string text, json;
  if (!flags.convention.empty() && flags.convention != "all")
    SLUICE_RETURN_IF_ERROR(findConvention(flags.convention).status());
  if (isExecutable(flags.model)) {
    if (!flags.convention.empty())
      return usageError(
          "--convention: expected a spec, a graph or a config.json, found an executable; its ledger "
          "has no conventions");
    if (!flags.options.bindings.empty())
      return usageError("--bind: an executable is bound already; count its spec or graph for other sizes");
    SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(flags.model));
    if (executable.description.ledger.empty())
      return usageError(flags.model, ": holds no ledger");
    json = executable.description.ledger;
    SLUICE_ASSIGN_OR_RETURN(Ledger ledger, ledgerFromJson(json, flags.model));
    text = ledgerText(ledger);
  } else {
    Compiler compiler;
    SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(flags.model, flags.assignments));
    SLUICE_RETURN_IF_ERROR(compiler.run(model, Phase::Differentiate, flags.options));
    SLUICE_ASSIGN_OR_RETURN(Ledger ledger, makeLedger(*model.module));
    json = ledgerJson(ledger);
    text = ledgerText(ledger);
    if (!flags.convention.empty()) {
      SLUICE_ASSIGN_OR_RETURN(ConventionStats stats,
                              conventionStats(*model.module, ledger, flags.convention));
      text = stats.text, json = stats.json;
    }
  }
  if (flags.json.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  if (flags.json != "-")
    return writeFileAtomically(flags.json, json + "\n");
  std::printf("%s\n", json.c_str());
  return absl::OkStatus();
}

} // namespace

void addStatsCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand("stats", "Count parameters and FLOPs exactly, forward and backward");
  auto flags = std::make_shared<StatsFlags>();
  command
      ->add_option("MODEL", flags->model,
                   "A spec (.yaml), a graph (.mlir), an executable (.slx) or a config.json")
      ->type_name("MODEL")
      ->required();
  command->add_option("--bind", flags->options.bindings, "Sizes of the named dimensions: batch=8,seq=256")
      ->type_name("SIZES");
  command->add_option("--set", flags->assignments, "Change a key of the spec: --set model.layers=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--json", flags->json, "Write the ledger as JSON; - is standard output")
      ->type_name("FILE");
  command
      ->add_option(
          "--convention", flags->convention,
          "Count as a paper does: exact, 6n, palm, megatron, megatron-recompute, megatron-bridge, "
          "torchtitan, "
          "chinchilla, chinchilla-text, kaplan, nanogpt, 2506.12119, 2606.01155; all: every one side by side")
      ->type_name("NAME");
  command->callback([=, &invocation] { invocation.action = [=] { return statsOnce(*flags); }; });
}

} // namespace sluice::cli
