#include "frontends/cli/Paths.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/data/Dataset.h"
#include "runtime/data/Utf8.h"
#include "runtime/train/Count.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Trainer.h"

#include <cstdio>

namespace sluice::cli {
namespace {

struct TrainFlags {
  std::string model, models, data, run, tokens, stopAfter, device = "cpu", prompt;
  std::vector<std::string> assignments;
  int64_t seed = -1, sampleTokens = 60;
  bool dryRun = false;
};

Status readCounts(const TrainFlags &flags, TrainOptions &options) {
  if (!flags.tokens.empty()) {
    SLUICE_ASSIGN_OR_RETURN(options.overrides.tokens, parseCount(flags.tokens, "--tokens"));
  }
  if (!flags.stopAfter.empty()) {
    SLUICE_ASSIGN_OR_RETURN(options.stopAfterTokens, parseCount(flags.stopAfter, "--stop-after"));
  }
  if (flags.seed >= 0)
    options.overrides.seed = flags.seed;
  return absl::OkStatus();
}

void printEnd(const TrainFlags &flags, const TrainReport &report) {
  auto sample = [&](const char *when, const std::string &text) {
    if (!text.empty())
      std::printf("\n%s%s\n", when, utf8Readable(flags.prompt + text).c_str());
  };
  sample("before training: ", report.sampleBefore);
  sample("after training:  ", report.sampleAfter);
  std::printf("\nvalidation loss  %.4f nats/token, %.4f bits/byte (%.0f tokens)\n",
              report.validation.natsPerToken(), report.validation.bitsPerByte(), report.validation.targets);
  std::printf("trained          %s tokens in %lld steps, %.0f s here\n",
              formatCount(static_cast<double>(report.tokens)).c_str(), static_cast<long long>(report.step),
              report.seconds);
  std::printf("run folder       %s (metrics.jsonl, checkpoints/, model.slx)\n", flags.run.c_str());
  if (!report.finished)
    std::printf("the same command with a later --stop-after, or without it, goes on\n");
}

Status trainOnce(const TrainFlags &flags, const Invocation &invocation, const ModelResolver &resolver) {
  TrainOptions options;
  options.dataFolder = flags.data;
  options.runFolder = flags.run;
  options.out = stdout;
  options.progress = detectProgressOptions(stdout, invocation.quiet);
  options.sampleTokens = flags.sampleTokens;
  options.samplePrompt = flags.prompt;
  SLUICE_RETURN_IF_ERROR(readCounts(flags, options));

  SLUICE_RETURN_IF_ERROR(requireInput("MODEL", flags.model, flags.models));
  SLUICE_RETURN_IF_ERROR(requireDataset("--data", flags.data));
  int64_t vocabulary = 0;
  {
    SLUICE_ASSIGN_OR_RETURN(Dataset dataset, Dataset::open(flags.data));
    vocabulary = dataset.tokenizer().vocabulary();
  }
  SLUICE_ASSIGN_OR_RETURN(ResolvedModel model, resolver(flags.model, flags.assignments, vocabulary));
  options.spec = model.spec;
  if (model.spec.empty())
    options.overrides.settings =
        flags.assignments; // an executable: only its training section can still change
  // A run keeps its executable: going on needs no second compilation, and the compiler may have changed
  // since.
  SLUICE_ASSIGN_OR_RETURN(std::optional<Executable> executable, runExecutable(flags.run));
  if (executable && !model.spec.empty()) {
    SLUICE_RETURN_IF_ERROR(checkRunSpec(flags.run, model.spec));
  } else {
    SLUICE_ASSIGN_OR_RETURN(executable, model.executable(targetsFor(flags.device)));
  }
  if (flags.dryRun) {
    SLUICE_ASSIGN_OR_RETURN(std::string text, describeTraining(*executable, options));
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(flags.device, invocation));
  SLUICE_ASSIGN_OR_RETURN(TrainReport report, train(*executable, *device, options));
  printEnd(flags, report);
  return absl::OkStatus();
}

} // namespace

void addTrainCommand(CLI::App &app, Invocation &invocation, ModelResolver resolver,
                     const std::string &models) {
  CLI::App *command =
      app.add_subcommand("train", "Train a model; the same command continues a run that was stopped");
  auto flags = std::make_shared<TrainFlags>();
  flags->models = models;
  command->add_option("MODEL", flags->model, "What to train: " + models)->required();
  command->add_option("--data", flags->data, "A folder made by `data pack`")->type_name("DATA")->required();
  command->add_option("-o,--out", flags->run, "Folder of the run: executable, metrics, checkpoints")
      ->type_name("RUN")
      ->required();
  command->add_option("--tokens", flags->tokens, "Horizon that the schedule is made for: 2M, 1e6, 250_000")
      ->type_name("COUNT");
  command
      ->add_option("--stop-after", flags->stopAfter,
                   "Stop earlier, after this many tokens; the schedule stays")
      ->type_name("COUNT");
  command->add_option("--seed", flags->seed, "Seed of the initial weights (default: the spec's)")
      ->type_name("N")
      ->check(wholeNumber(0));
  command
      ->add_option("--set", flags->assignments, "Change a key of the spec: --set train.lr=3e-4 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  addDevice(*command, flags->device);
  command->add_option("--sample", flags->sampleTokens, "Tokens of the samples before and after; 0: none")
      ->type_name("N")
      ->check(wholeNumber(0))
      ->capture_default_str();
  command->add_option("--prompt", flags->prompt, "Prompt of the samples")->type_name("TEXT");
  command->add_flag("--dry-run", flags->dryRun,
                    "Print settings, schedule, ledger and memory plan; train nothing");
  command->add_flag("--quiet", invocation.quiet, "No progress");
  addThreads(*command, invocation);
  command->footer("Example:\n"
                  "  sluice train models/demo/moe.yaml --data data/ --out runs/moe --tokens 2M\n"
                  "Ctrl-C finishes the step, saves and exits with 5.");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return trainOnce(*flags, invocation, resolver); };
  });
}

} // namespace sluice::cli
