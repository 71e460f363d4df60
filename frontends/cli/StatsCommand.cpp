#include "frontends/cli/Compiler.h"
#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/ConventionStats.h"
#include "frontends/cli/LedgerFile.h"
#include "frontends/cli/Paths.h"
#include "frontends/cli/StatsUnits.h"

#include "runtime/support/File.h"

#include <cstdio>

namespace sluice::cli {
namespace {

struct StatsFlags {
  std::string model, json, csv, convention, by, per, machine;
  std::vector<std::string> compare, assignments;
  int depth = 3;
  CompilerOptions options;
};

StatusOr<Ledger> countExecutable(const StatsFlags &flags, const std::string &model) {
  if (!flags.options.bindings.empty())
    return usageError("--bind: an executable is bound already; count its spec or graph for other sizes");
  SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(model));
  if (executable.description.ledger.empty())
    return usageError(model, ": holds no ledger");
  return ledgerFromJson(executable.description.ledger, model);
}

/// Counts the differentiated graph: forward, backward and optimizer as they are, before anything is fused.
StatusOr<Ledger> countModel(const StatsFlags &flags, const std::string &model) {
  if (isExecutable(model))
    return countExecutable(flags, model);
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler.load(model, flags.assignments));
  if (Status status = compiler.run(loaded, Phase::Differentiate, flags.options); !status.ok()) {
    // An op that cannot say its count cannot be differentiated either: all such ops are the better answer.
    SLUICE_ASSIGN_OR_RETURN(LoadedModel bound, compiler.load(model, flags.assignments));
    if (compiler.run(bound, Phase::Bind, flags.options).ok())
      SLUICE_RETURN_IF_ERROR(makeLedger(*bound.module).status());
    return status;
  }
  return makeLedger(*loaded.module);
}

StatusOr<ReportOptions> reportOptions(const StatsFlags &flags, const Ledger &ledger) {
  ReportOptions options;
  options.depth = flags.depth;
  SLUICE_ASSIGN_OR_RETURN(options.scale, parseScale(flags.per, ledger));
  if (!flags.by.empty()) {
    options.by = ledgerKeyByName(flags.by);
    if (!options.by)
      return usageError("--by: expected op, layer, module or role, found '", flags.by, "'");
  }
  if (!flags.machine.empty()) {
    SLUICE_ASSIGN_OR_RETURN(options.machine, parseMachine(flags.machine));
  }
  return options;
}

Status emit(const std::string &file, const std::string &text) {
  if (file != "-")
    return writeFileAtomically(file, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

Status compareOnce(const StatsFlags &flags) {
  if (!flags.model.empty() || !flags.json.empty() || !flags.csv.empty() || !flags.convention.empty() ||
      !flags.by.empty() || !flags.machine.empty())
    return usageError("--compare: expected two models, --bind, --set and --per only");
  for (const std::string &model : flags.compare)
    SLUICE_RETURN_IF_ERROR(
        requireInput("--compare", model, "a spec, a graph, an executable or a config.json"));
  SLUICE_ASSIGN_OR_RETURN(Ledger a, countModel(flags, flags.compare[0]));
  SLUICE_ASSIGN_OR_RETURN(Ledger b, countModel(flags, flags.compare[1]));
  SLUICE_ASSIGN_OR_RETURN(ReportOptions optionsA, reportOptions(flags, a));
  SLUICE_ASSIGN_OR_RETURN(ReportOptions optionsB, reportOptions(flags, b));
  return emit("-", compareText(flags.compare[0], a, flags.compare[1], b, optionsA, optionsB));
}

Status statsOnce(const StatsFlags &flags) {
  if (!flags.compare.empty())
    return compareOnce(flags);
  if (flags.model.empty())
    return usageError("MODEL: expected a spec, a graph, an executable or a config.json, found none");
  SLUICE_RETURN_IF_ERROR(
      requireInput("MODEL", flags.model, "a spec, a graph, an executable or a config.json"));
  SLUICE_RETURN_IF_ERROR(requireOutput("--json", flags.json));
  SLUICE_RETURN_IF_ERROR(requireOutput("--csv", flags.csv));
  if (!flags.convention.empty() && flags.convention != "all")
    SLUICE_RETURN_IF_ERROR(findConvention(flags.convention).status());
  SLUICE_ASSIGN_OR_RETURN(Ledger ledger, countModel(flags, flags.model));
  SLUICE_ASSIGN_OR_RETURN(ReportOptions options, reportOptions(flags, ledger));
  std::optional<ConventionStats> conventions;
  if (!flags.convention.empty()) {
    SLUICE_ASSIGN_OR_RETURN(conventions, conventionStats(ledger, flags.convention));
  }
  if (!flags.json.empty())
    SLUICE_RETURN_IF_ERROR(
        emit(flags.json, (conventions ? conventions->json : ledgerJson(ledger, options.scale)) + "\n"));
  if (!flags.csv.empty())
    SLUICE_RETURN_IF_ERROR(emit(flags.csv, ledgerCsv(ledger, options.scale)));
  if (!flags.json.empty() || !flags.csv.empty())
    return absl::OkStatus();
  return emit("-", conventions ? conventions->text : ledgerText(ledger, options));
}

} // namespace

void addStatsCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand("stats", "Count parameters and FLOPs exactly, forward and backward");
  auto flags = std::make_shared<StatsFlags>();
  command
      ->add_option("MODEL", flags->model,
                   "A spec (.yaml), a graph (.mlir), an executable (.slx) or a config.json")
      ->type_name("MODEL");
  command->add_option("--bind", flags->options.bindings, "Sizes of the named dimensions: batch=8,seq=256")
      ->type_name("SIZES");
  command->add_option("--set", flags->assignments, "Change a key of the spec: --set model.layers=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--by", flags->by, "A table instead of the tree: op, layer, module or role")
      ->type_name("KEY");
  command->add_option("--depth", flags->depth, "Levels of the tree, and of the table by module")
      ->type_name("LEVELS")
      ->check(CLI::Range(0, 64));
  command
      ->add_option("--per", flags->per,
                   "What figures are of: token, sequence, step, run=2Btok; else a micro-batch")
      ->type_name("UNIT");
  command
      ->add_option("--machine", flags->machine,
                   "Measured rates for a lower bound of the time: peak=500GFLOP/s,bandwidth=40GB/s")
      ->type_name("RATES");
  command->add_option("--compare", flags->compare, "Two models side by side, differences marked")
      ->type_name("A B")
      ->expected(2);
  command->add_option("--json", flags->json, "Write the ledger as JSON; - is standard output")
      ->type_name("FILE");
  command->add_option("--csv", flags->csv, "Write one line an op and place; - is standard output")
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
