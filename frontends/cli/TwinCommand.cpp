#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/ExpertsForReport.h"
#include "frontends/cli/ModelCounter.h"
#include "frontends/cli/Paths.h"
#include "frontends/cli/TwinReport.h"
#include "frontends/twin/TwinFamily.h"
#include "frontends/twin/TwinSpec.h"

#include "runtime/support/File.h"
#include "runtime/train/Count.h"

#include "absl/strings/str_split.h"
#include "llvm/Support/Path.h"

#include <cstdio>

namespace sluice::cli {
namespace {

struct TwinFlags {
  std::string model, match = "active", vary = "ffn", tolerance = "0.1%", target, tokens, bindings, output,
                     json, expertsFor;
  std::vector<std::string> ranges, assignments;
  int64_t multipleOf = 8, topK = 0;
  int show = 10;
};

/// "width=128:512" or "experts=8:64:8" or "experts=8".
Status readRange(const std::string &text, std::map<std::string, TwinRange> &ranges) {
  auto error = [&] {
    return usageError("--range: expected SIZE=LEAST:MOST or SIZE=LEAST:MOST:STEP or SIZE=VALUE, found '",
                      text, "'");
  };
  std::vector<std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (sides.size() != 2 || sides[0].empty())
    return error();
  std::vector<std::string> parts = absl::StrSplit(sides[1], ':');
  std::vector<int64_t> values;
  for (const std::string &part : parts) {
    StatusOr<int64_t> value = parseCount(part, "--range");
    if (!value.ok() || *value <= 0)
      return error();
    values.push_back(*value);
  }
  if (values.size() > 3 || (values.size() > 1 && values[0] > values[1]))
    return error();
  TwinRange range{values[0], values.size() > 1 ? values[1] : values[0], values.size() > 2 ? values[2] : 0};
  if (values.size() == 1)
    range.step = 1; // one value needs no grid
  ranges[sides[0]] = range;
  return absl::OkStatus();
}

StatusOr<TwinRequest> requestOf(const TwinFlags &flags) {
  TwinRequest request;
  request.vary.clear();
  for (absl::string_view size : absl::StrSplit(flags.vary, ',', absl::SkipEmpty()))
    request.vary.insert(std::string(size));
  request.multipleOf = flags.multipleOf, request.topK = flags.topK;
  if (flags.topK > 0 && !request.vary.count("experts"))
    return usageError("--top-k: expected `--vary experts` beside it; a dense twin chooses no experts");
  for (const std::string &range : flags.ranges)
    SLUICE_RETURN_IF_ERROR(readRange(range, request.ranges));
  return request;
}

/// The same search, but every count that a person sees is the ledger's own.
Status countForReal(TwinReport &report, const TwinFamily &family, const TwinCount &count) {
  for (auto *list : {&report.answer.within, &report.answer.nearest})
    for (TwinCandidate &candidate : *list) {
      SLUICE_ASSIGN_OR_RETURN(Count real, count(candidate.point));
      if (real != candidate.count)
        return failure("the count of ", pointText(family.variables(), candidate.point),
                       " was expected to be ", groupedDigits(candidate.count),
                       " from smaller models, its graph has ", groupedDigits(real),
                       "; this model does not grow evenly in what varies: vary something else");
    }
  return absl::OkStatus();
}

Status noSolution(const TwinReport &report, const TwinFlags &flags) {
  std::string text =
      concat("no ", report.kind, " model within ", flags.tolerance, " of ", groupedDigits(report.target), " ",
             matchedName(report.match), "; the nearest two:");
  for (const TwinCandidate &candidate : report.answer.nearest)
    text += concat("\n  ", pointText(report.variables, candidate.point), ": ", groupedDigits(candidate.count),
                   " (", residualText(candidate.count, report.target), ", ",
                   residualPercent(candidate.count, report.target), ")");
  return failure(text, "\nwiden --tolerance, lower --multiple-of, or vary more (--vary width,ffn)");
}

std::string commentOf(const TwinReport &report, const ModelSource &source, const DecoderConfig &config) {
  const TwinCandidate &best = report.answer.within.front();
  return concat("# ", report.kind == "dense" ? "Dense twin" : "Twin with experts", " of ", source.config.name,
                ", ", matchedName(report.match), " matched: ", groupedDigits(best.count), " for ",
                groupedDigits(report.target), ",\n# ", residualText(best.count, report.target), " (",
                residualPercent(best.count, report.target), ")",
                report.match == "flops" ? concat(" at ", report.sizes) : "", ".\n",
                config.moe && !source.config.moe ? "# losses.balance is new: a router needs it.\n" : "");
}

/// Writes the twin as a graph, or as a spec that is read back as `stats` would read it: the counts must be
/// the same.
Status writeTwin(const TwinFlags &flags, const TwinReport &report, const ModelSource &source,
                 const DecoderConfig &config, ModelCounter &counter) {
  llvm::StringRef extension = llvm::sys::path::extension(flags.output);
  if (extension == ".mlir") {
    SLUICE_ASSIGN_OR_RETURN(std::string graph, counter.graph(config));
    return writeFileAtomically(flags.output, graph);
  }
  SLUICE_RETURN_IF_ERROR(writeFileAtomically(
      flags.output, twinSpec(config, source.config, source.tree, source.training, source.batch,
                             source.sequence, commentOf(report, source, config))));
  auto recount = [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(ModelSource written, readModelSource(flags.output, {}));
    SLUICE_ASSIGN_OR_RETURN(Ledger ledger, counter.count(written.config, true));
    for (const char *match : {"total", "active", "nonzero", "flops"})
      if (matchedFigure(ledger, match) != matchedFigure(report.twinLedger, match))
        return usageError(flags.model, ": has a setting that a spec cannot say, so the twin is no spec (",
                          matchedName(match), " of ", flags.output, ": ",
                          groupedDigits(matchedFigure(ledger, match)),
                          ", of the twin: ", groupedDigits(matchedFigure(report.twinLedger, match)),
                          "); write it as a graph: -o twin.mlir");
    return absl::OkStatus();
  };
  Status status = recount();
  if (!status.ok())
    std::remove(flags.output.c_str());
  return status;
}

/// Tokens of an optimizer step: the spec's batch_tokens where whole batches fill it, else the bound batch.
Count stepTokensOf(const ModelSource &source, Count boundTokens) {
  if (std::optional<int64_t> tokens = source.training.getInteger("batch_tokens"))
    if (*tokens > 0 && static_cast<Count>(*tokens) % boundTokens == 0)
      return static_cast<Count>(*tokens);
  return boundTokens;
}

Status addBudgets(const TwinFlags &flags, const ModelSource &source, TwinReport &report, Count boundTokens) {
  SLUICE_ASSIGN_OR_RETURN(Count tokens, parseLargeCount(flags.tokens, "--tokens"));
  const Count stepTokens = stepTokensOf(source, boundTokens), batches = stepTokens / boundTokens;
  const Count reference = batches * matchedFigure(report.referenceLedger, "flops"),
              twin = batches * matchedFigure(report.twinLedger, "flops");
  // Whole steps of the reference first: tokens at one token's cost each.
  report.referenceBudget = tokensForCompute(tokens, stepTokens, stepTokens);
  report.referenceBudget->flops = report.referenceBudget->steps * reference;
  report.twinBudget = tokensForCompute(report.referenceBudget->flops, twin, stepTokens);
  return absl::OkStatus();
}

Status twinOnce(const TwinFlags &flags) {
  SLUICE_RETURN_IF_ERROR(requireOutput("--output", flags.output));
  SLUICE_RETURN_IF_ERROR(requireOutput("--json", flags.json));
  if (llvm::StringRef end = llvm::sys::path::extension(flags.output);
      !flags.output.empty() && end != ".yaml" && end != ".yml" && end != ".mlir")
    return usageError("--output: expected a spec (.yaml) or a graph (.mlir), found '", flags.output, "'");
  if (!flags.expertsFor.empty()) {
    if (!flags.model.empty())
      return usageError("--experts-for: expected no MODEL beside it, found '", flags.model,
                        "'; it makes a model from N and an activation rate");
    return expertsFor({flags.expertsFor, flags.output, flags.json, flags.show});
  }
  if (flags.model.empty())
    return usageError("MODEL: expected a spec, a graph, an executable or a config.json, or --experts-for "
                      "N=...,active-rate=...; found neither");
  SLUICE_ASSIGN_OR_RETURN(ModelSource source, readModelSource(flags.model, flags.assignments));
  SLUICE_ASSIGN_OR_RETURN(TwinRequest request, requestOf(flags));
  SLUICE_ASSIGN_OR_RETURN(double share, parseShare(flags.tolerance, "--tolerance"));
  SLUICE_ASSIGN_OR_RETURN(TwinFamily family, TwinFamily::make(source.config, request));
  ModelCounter counter(source, flags.bindings);

  TwinReport report;
  report.reference = flags.model, report.match = flags.match, report.shared = family.shared();
  report.variables = family.variables(), report.sizes = counter.sizes();
  report.kind = request.vary.count("experts") ? "with experts" : "dense";
  SLUICE_ASSIGN_OR_RETURN(report.referenceLedger, counter.count(source.config, true));
  report.target = matchedFigure(report.referenceLedger, flags.match);
  if (!flags.target.empty()) {
    SLUICE_ASSIGN_OR_RETURN(report.target, parseLargeCount(flags.target, "--target"));
  }
  report.tolerance = static_cast<Count>(share * static_cast<double>(report.target));

  const bool backward = flags.match == "flops";
  TwinCount count = [&](const TwinPoint &point) -> StatusOr<Count> {
    SLUICE_ASSIGN_OR_RETURN(Ledger ledger, counter.count(family.at(point), backward));
    return matchedFigure(ledger, flags.match);
  };
  SLUICE_ASSIGN_OR_RETURN(CountPolynomial polynomial, CountPolynomial::fit(family.variables(), count));
  report.answer = searchTwins(family.variables(), polynomial, report.target, report.tolerance,
                              static_cast<size_t>(flags.show));
  SLUICE_RETURN_IF_ERROR(countForReal(report, family, count));
  if (report.answer.within.empty())
    return noSolution(report, flags);

  const DecoderConfig best = family.at(report.answer.within.front().point);
  SLUICE_ASSIGN_OR_RETURN(report.twinLedger, counter.count(best, true));
  if (!flags.tokens.empty()) {
    SLUICE_RETURN_IF_ERROR(addBudgets(flags, source, report, counter.boundTokens()));
  }
  if (!flags.output.empty())
    SLUICE_RETURN_IF_ERROR(writeTwin(flags, report, source, best, counter));
  if (flags.json == "-") {
    std::fputs(twinJson(report).c_str(), stdout);
    return absl::OkStatus();
  }
  if (!flags.json.empty())
    SLUICE_RETURN_IF_ERROR(writeFileAtomically(flags.json, twinJson(report)));
  std::fputs(twinText(report).c_str(), stdout);
  if (!flags.output.empty())
    std::printf("\nwritten to %s\n", flags.output.c_str());
  return absl::OkStatus();
}

} // namespace

void addTwinCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command =
      app.add_subcommand("twin", "Find the fair partner of a model: the same budget, another kind");
  auto flags = std::make_shared<TwinFlags>();
  command
      ->add_option("MODEL", flags->model,
                   "A spec (.yaml), a graph (.mlir), an executable (.slx) or a config.json or its folder")
      ->type_name("MODEL");
  command
      ->add_option(
          "--match", flags->match,
          "What is equal: active, total or nonzero parameters, or flops of a training step, attention "
          "included")
      ->type_name("BUDGET")
      ->check(oneOf({"active", "total", "nonzero", "flops"}))
      ->capture_default_str();
  command
      ->add_option(
          "--vary", flags->vary,
          "What may differ: ffn, width, layers, experts, or several: width,ffn. With experts the twin is a "
          "Mixture-of-Experts, without it is dense")
      ->type_name("SIZES")
      ->capture_default_str();
  command->add_option("--multiple-of", flags->multipleOf, "Widths are multiples of it")
      ->type_name("N")
      ->check(wholeNumber(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--range", flags->ranges, "Bounds of one size: width=128:512, experts=8:64:8, experts=8")
      ->type_name("SIZE=BOUNDS")
      ->allow_extra_args(false);
  command
      ->add_option("--top-k", flags->topK,
                   "Experts that a token chooses, with --vary experts (default: the model's, or 2)")
      ->type_name("K")
      ->check(wholeNumber(1, 1024));
  command->add_option("--tolerance", flags->tolerance, "How far a candidate may be from the target")
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_option("--target", flags->target, "Match this number in place of the model's own: 14.89M")
      ->type_name("COUNT");
  command
      ->add_option("--tokens", flags->tokens,
                   "Also say on how many tokens the twin trains for the FLOPs of so many of the model's")
      ->type_name("COUNT");
  command
      ->add_option(
          "--experts-for", flags->expertsFor,
          "Instead of a twin: experts for N=2.15B,active-rate=20%,top-k=7 (or expert-ffn, granularity, "
          "experts), with C=9.36e20 the tokens, with unique=68B the epochs; also width, layers, ffn, "
          "head-dim, "
          "dense-layers, shared=no, router-counted=no, multiple-of, vocabulary, seq, tolerance")
      ->type_name("KEY=VALUE,...");
  command->add_option("--show", flags->show, "Candidates to list")
      ->type_name("N")
      ->check(wholeNumber(1, 1000))
      ->capture_default_str();
  command->add_option("--bind", flags->bindings, "Sizes of the named dimensions: batch=8,seq=256")
      ->type_name("SIZES");
  command->add_option("--set", flags->assignments, "Change a key of the spec: --set model.layers=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("-o,--output", flags->output,
                   "Write the best candidate as a spec (.yaml) or a graph (.mlir)")
      ->type_name("FILE");
  command->add_option("--json", flags->json, "Write candidates and figures as JSON; - is standard output")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  sluice twin models/paper1/moe-4x-top2.yaml --match active -o dense.yaml\n"
      "  sluice twin models/paper1/moe-4x-top2.yaml --match total --vary width,ffn\n"
      "  sluice twin models/paper1/dense-2048.yaml --match flops --vary experts --range experts=8:64\n"
      "  sluice twin --experts-for N=2.15B,active-rate=20%,top-k=7,width=1408,layers=16,C=9.36e20\n"
      "\n"
      "Every combination of the sizes on their grid is considered; listed counts are those of the real "
      "graphs. Exit code 1: none is within the tolerance; the nearest two are named.");
  command->callback([=, &invocation] { invocation.action = [=] { return twinOnce(*flags); }; });
}

} // namespace sluice::cli
