#include "frontends/cli/MasksPlot.h"
#include "frontends/cli/Paths.h"
#include "frontends/cli/RunSession.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/metrics/MetricsReader.h"
#include "runtime/support/File.h"
#include "runtime/train/MaskReport.h"
#include "runtime/train/RunFolder.h"

#include "absl/strings/str_format.h"

#include <cstdio>

namespace sluice::cli {
namespace {

struct MasksFlags {
  std::string run, checkpoint = "newest", json, plot;
  bool experts = false;
  int64_t updates = 5;
};

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += concat(text.empty() ? "" : " x ", size);
  return text;
}

std::string countsText(const MaskCounts &counts) {
  return absl::StrFormat("%12d %8.2f %% %8.1f %%", counts.kept, 100 * counts.density(),
                         100 * counts.overlap());
}

std::string text(const MaskReport &report, const MasksFlags &flags) {
  std::string out = absl::StrFormat("%s: masks after step %d, method %s\n\n%-28s %-18s %12s %10s %10s  %s\n",
                                    flags.run, report.step, report.method, "weights", "shape", "kept",
                                    "density", "of start", "age in steps: 10 %, median, 90 %");
  for (const MaskLayer &layer : report.layers) {
    out += absl::StrFormat("%-28s %-18s %s", layer.name, shapeText(layer.shape), countsText(layer.counts));
    if (layer.ages)
      out +=
          absl::StrFormat("  %.0f, %.0f, %.0f", layer.ages->tenth, layer.ages->median, layer.ages->ninetieth);
    out += "\n";
    for (size_t expert = 0; flags.experts && expert < layer.experts.size(); ++expert)
      out += absl::StrFormat("  %-45s %s\n", concat("expert ", expert), countsText(layer.experts[expert]));
  }
  out += absl::StrFormat("%-47s %s\n", "all", countsText(report.total));
  if (report.method == "static")
    return out + "\nStatic masks never change.\n";
  if (report.updates.empty())
    return out + "\nNo update of the masks yet.\n";
  out += absl::StrFormat("\n%zu updates so far; the last ones:\n%10s %12s %12s %10s %10s %14s\n",
                         report.updates.size(), "step", "grown", "dropped", "churn",
                         report.method == "gradual" ? "removed" : "asked for", "skip zeros");
  const size_t shown = std::min<size_t>(report.updates.size(), static_cast<size_t>(flags.updates));
  for (size_t k = report.updates.size() - shown; k < report.updates.size(); ++k) {
    const MaskChange &update = report.updates[k];
    const MaskChange::Layer total = update.total();
    out += absl::StrFormat(
        "%10d %12d %12d %8.2f %% %8.2f %% %14s\n", update.step, total.grown, total.dropped,
        total.kept > 0 ? 100.0 * static_cast<double>(total.grown) / static_cast<double>(total.kept) : 0.0,
        100 * (report.method == "gradual" ? update.removed : update.share),
        concat(total.skipping, " of ", total.products));
  }
  return out;
}

Status emit(const std::string &file, const std::string &content) {
  if (file != "-")
    return writeFileAtomically(file, content);
  std::fwrite(content.data(), 1, content.size(), stdout);
  return absl::OkStatus();
}

Status masksOnce(const MasksFlags &flags) {
  SLUICE_RETURN_IF_ERROR(requireInput("RUN", flags.run, "a run folder"));
  if (flags.json != "-")
    SLUICE_RETURN_IF_ERROR(requireOutput("--json", flags.json));
  SLUICE_RETURN_IF_ERROR(requireOutput("--plot", flags.plot));
  SLUICE_ASSIGN_OR_RETURN(const Executable executable, requireRun(flags.run));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<ModelMask> masks, modelMasks(executable.description));
  if (masks.empty())
    return usageError(flags.run,
                      ": expected a run with masks, found a dense model; the section `sparsity` of a spec "
                      "makes masks");
  SLUICE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, findCheckpoint(flags.run, flags.checkpoint));
  MetricsFile metrics;
  if (StatusOr<MetricsFile> read = readMetrics(concat(flags.run, "/", runMetricsFile)); read.ok())
    metrics = std::move(*read);
  else if (!absl::IsNotFound(read.status()))
    return read.status();
  SLUICE_ASSIGN_OR_RETURN(const MaskReport report,
                          reportMasks(executable.description, checkpoint, metrics.records));
  if (!flags.plot.empty())
    SLUICE_RETURN_IF_ERROR(emit(flags.plot, masksPlot(report, concat("Masks of ", flags.run))));
  if (!flags.json.empty())
    return emit(flags.json, maskReportJson(report, flags.run).dump(1) + "\n");
  return emit("-", text(report, flags));
}

} // namespace

void addMasksCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand(
      "masks", "Show a run's masks: density of each layer, churn, age of weights, overlap with the start");
  auto flags = std::make_shared<MasksFlags>();
  command->add_option("RUN", flags->run, "A run folder; the run may be going on")
      ->type_name("RUN")
      ->required();
  command->add_option("--checkpoint", flags->checkpoint, "newest, best, or a checkpoint folder")
      ->type_name("CHECKPOINT")
      ->capture_default_str();
  command->add_flag("--experts", flags->experts, "A line for each expert below its layer");
  command->add_option("--updates", flags->updates, "How many of the last updates to list")
      ->type_name("N")
      ->check(wholeNumber(1))
      ->capture_default_str();
  command->add_option("--plot", flags->plot, "Draw maps of the layers and the churn of all updates as SVG")
      ->type_name("FILE.svg");
  command->add_option("--json", flags->json, "Write everything as JSON; - is standard output")
      ->type_name("FILE");
  command->footer(
      "What the columns mean:\n"
      "  density   kept weights over all weights of the matrix\n"
      "  of start  share of the kept weights that the mask of the run's start kept too; that mask is\n"
      "            drawn anew from the run's seed\n"
      "  age       steps since a weight was grown, or since the start; counted where the spec has\n"
      "            sparsity.regrown.step\n"
      "  churn     weights that an update added over those kept after it; below the share asked for\n"
      "            where a weight was dropped and grown again at once\n"
      "  skip zeros  products of a micro-batch whose kernels skip zeros from this step on; the others\n"
      "            multiply them. Pruning carries both and changes over when few enough are kept\n"
      "\n"
      "Examples:\n"
      "  sluice masks runs/set\n"
      "  sluice masks runs/set --plot masks.svg\n"
      "  sluice masks runs/moe --experts --checkpoint best");
  command->callback([=, &invocation] { invocation.action = [=] { return masksOnce(*flags); }; });
}

} // namespace sluice::cli
