#include "runtime/train/Trainer.h"
#include "runtime/train/Masks.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/RunLock.h"
#include "runtime/data/Dataset.h"
#include "runtime/executor/Session.h"
#include "runtime/metrics/MetricsWriter.h"
#include "runtime/metrics/Speed.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"
#include "runtime/train/Generate.h"
#include "runtime/train/Records.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/RunState.h"
#include "runtime/train/Signals.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/TrainingData.h"
#include "runtime/train/Weights.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

namespace sluice {
namespace {

constexpr const char *sampleBeforeFile = "sample.before.txt";

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Trainer {
public:
  Trainer(const Executable &executable, Device &device, const TrainOptions &options)
      : executable(executable), device(device), options(options),
        progress(options.out ? options.out : stdout, quietUnless(options)) {}

  StatusOr<TrainReport> run() {
    double start = now();
    // From here on: a signal while the run is prepared is kept too, and stops it with step 0 saved.
    StopSignals signals;
    stop = [&signals] { return signals.requested() != 0; };
    SLUICE_RETURN_IF_ERROR(prepare());
    Status outcome = loop();
    progress.finish();
    if (outcome.code() == absl::StatusCode::kCancelled || (outcome.ok() && state.step < lastStep)) {
      SLUICE_RETURN_IF_ERROR(save());
      return interruptedError("stopped by ", signalName(signals.requested()), " after step ", state.step,
                              ", everything is saved in '", options.runFolder,
                              "'; the same command continues");
    }
    if (exitCode(outcome) == ExitCode::Diverged && state.step > 0) {
      // The state before the step is whole and finite: keep it. The first problem is the one to report.
      if (Status saved = save(); !saved.ok())
        progress.note(concat("could not save the last good state: ", std::string(saved.message())));
    }
    SLUICE_RETURN_IF_ERROR(outcome);
    report.seconds = now() - start;
    return std::move(report);
  }

private:
  static ProgressOptions quietUnless(const TrainOptions &options) {
    ProgressOptions result = options.progress;
    result.quiet = result.quiet || !options.out;
    return result;
  }

  int64_t tokensAt(int64_t step) const { return step * config.batchTokens; }

  Status prepare() {
    SLUICE_ASSIGN_OR_RETURN(config, readTrainingConfig(executable.description.training, options.overrides));
    SLUICE_ASSIGN_OR_RETURN(data, TrainingData::open(executable.description, config, options.dataFolder));
    std::error_code error;
    std::filesystem::create_directories(options.runFolder, error);
    if (error)
      return usageError("--out: cannot make folder '", options.runFolder, "': ", error.message());
    SLUICE_ASSIGN_OR_RETURN(RunLock held, RunLock::acquire(options.runFolder));
    lock.emplace(std::move(held));
    if (!options.spec.empty())
      SLUICE_RETURN_IF_ERROR(checkRunSpec(options.runFolder, options.spec));
    nlohmann::json record = {{"version", 1},
                             {"model", executable.description.model},
                             {"executable", executable.sha256},
                             {"data", data->dataset.hash()},
                             {"evaluation_set", data->validation->contentHash()},
                             {"training", config.resolved}};
    state.config = sha256Hex(record.dump());
    SLUICE_ASSIGN_OR_RETURN(const bool goesOn, holdsRun(options.runFolder, record));
    SLUICE_ASSIGN_OR_RETURN(Session made, Session::create(executable, device, {options.memoryLimit}));
    session.emplace(std::move(made));
    SLUICE_ASSIGN_OR_RETURN(StepRunner stepper, StepRunner::create(*session, config.batchTokens));
    runner.emplace(std::move(stepper));
    // Now that the device takes it: a plan that is too large leaves the folder open to a smaller one.
    if (!goesOn)
      SLUICE_RETURN_IF_ERROR(startRun(options.runFolder, record, executable, options.spec,
                                      data->dataset.tokenizer().modelBytes()));
    sums = runner->emptySums();
    int64_t horizon = config.stepsFor(config.tokens);
    SLUICE_ASSIGN_OR_RETURN(
        Schedule made_, Schedule::create(config.schedule, config.learningRate, horizon, config.batchTokens));
    schedule.emplace(made_);
    if (config.masks.moves && session->has("update_topology"))
      SLUICE_RETURN_IF_ERROR(runner->updateMasks(MaskSchedule(config.masks, horizon), config.seed));
    lastStep = horizon;
    if (options.stopAfterTokens) // 0: initial weights are evaluated and saved
      lastStep = std::min(lastStep, config.stepsFor(*options.stopAfterTokens));
    store.emplace(options.runFolder, CheckpointOptions{config.keepCheckpoints, {"best"}});
    SLUICE_RETURN_IF_ERROR(restore());
    return openMetrics();
  }

  /// The newest valid checkpoint, or initial values.
  Status restore() {
    SLUICE_ASSIGN_OR_RETURN(NewestCheckpoint newest, store->newestValid());
    for (const auto &rejected : newest.rejected)
      progress.note(concat("checkpoint ", rejected.name, " is not used: ", rejected.reason));
    if (!newest.checkpoint) {
      state.seed = config.seed;
      state.dataSeed = config.dataSeed;
      state.horizonTokens = config.tokens;
      return session->initialize(config.seed);
    }
    const Checkpoint &checkpoint = *newest.checkpoint;
    std::string identity = state.config;
    SLUICE_ASSIGN_OR_RETURN(state, RunState::fromJson(checkpoint.state, checkpoint.path + "/state.json"));
    if (state.config != identity)
      return badInputError(checkpoint.path,
                           ": expected a checkpoint of this run, found one of another configuration");
    auto find = [](const SafetensorsFile &file) {
      return [&file](std::string_view name) { return file.find(name); };
    };
    // Masks first: they say which values of the other tensors are kept.
    SLUICE_RETURN_IF_ERROR(importMasks(*session, find(checkpoint.optimizer), checkpoint.optimizer.path()));
    SLUICE_RETURN_IF_ERROR(importModel(*session, find(checkpoint.model), checkpoint.model.path()));
    SLUICE_RETURN_IF_ERROR(
        importOptimizer(*session, find(checkpoint.optimizer), checkpoint.optimizer.path()));
    SLUICE_RETURN_IF_ERROR(checkMaskedStates(*session, checkpoint.path));
    savedStep = state.step;
    report.checkpoint = checkpoint.path;
    progress.note(concat("continuing after step ", state.step, " from ", checkpoint.path));
    if (state.device != device.name())
      progress.note(concat("the checkpoint was written on ", state.device, "; from here on ", device.name(),
                           " computes, whose sums round otherwise"));
    return absl::OkStatus();
  }

  Status openMetrics() {
    std::string path = options.runFolder + "/" + runMetricsFile, runId = state.config.substr(0, 16);
    StatusOr<std::string> text = readFile(path);
    if (!text.ok()) {
      SLUICE_ASSIGN_OR_RETURN(MetricsWriter writer, MetricsWriter::create(path, runId));
      metrics.emplace(std::move(writer));
      return absl::OkStatus();
    }
    // What was measured after the checkpoint is measured again.
    uint64_t offset = savedStep < 0 ? 0 : metricsOffset(*text, state.step);
    SLUICE_ASSIGN_OR_RETURN(MetricsWriter writer,
                            MetricsWriter::resume(path, runId, offset, static_cast<uint64_t>(state.step)));
    metrics.emplace(std::move(writer));
    return absl::OkStatus();
  }

  /// The last step that has been started. `state` is that after the last finished one.
  int64_t started() const { return state.step + runner->inFlight(); }

  Status startStep() {
    if (runner->inFlight() == 0)
      lastFinish = now();
    const uint64_t window = state.window + static_cast<uint64_t>(runner->inFlight()) * runner->windows();
    const int64_t step = started() + 1;
    return runner->start(data->training, window, step, schedule->rate(step));
  }

  /// Finishes steps until at most `remaining` are in flight.
  Status finishSteps(int remaining) {
    while (runner->inFlight() > remaining) {
      const double before = sums.targets, start = lastFinish;
      SLUICE_RETURN_IF_ERROR(runner->finish(sums));
      lastFinish = now();
      speed.addStep(static_cast<uint64_t>(config.batchTokens), lastFinish - start);
      ++state.step;
      state.window += runner->windows();
      state.seenTokens += static_cast<uint64_t>(sums.targets - before);
      if (!deviceRecorded)
        SLUICE_RETURN_IF_ERROR(recordChoices());
      if (const MaskChange *change = runner->maskChange(state.step))
        SLUICE_RETURN_IF_ERROR(metrics->write(maskRecord(place(), *change)));
      if (state.step == 1 || state.step % config.logEverySteps == 0 || state.step == lastStep)
        SLUICE_RETURN_IF_ERROR(log());
    }
    return absl::OkStatus();
  }

  /// What the device chose for the programs of a step, now that they are prepared.
  Status recordChoices() {
    deviceRecorded = true;
    SLUICE_ASSIGN_OR_RETURN(bool changed, recordDevice(options.runFolder, device.name(), device.choices()));
    if (changed)
      progress.note(concat(device.name(), " chose other algorithms than when this run was last here (",
                           runDeviceFile, "); sums may round otherwise"));
    return absl::OkStatus();
  }

  Status loop() {
    SLUICE_RETURN_IF_ERROR(sample(sampleBeforeFile, report.sampleBefore));
    if (evaluationDue(state.step) && state.evaluatedStep != state.step)
      SLUICE_RETURN_IF_ERROR(evaluateDue());
    while (started() < lastStep && !stop()) {
      SLUICE_RETURN_IF_ERROR(startStep());
      // The device has its next step before the last one is looked at; what follows a step's end needs them
      // all.
      const int64_t step = started();
      const bool saves = step % config.checkpointEverySteps == 0 && step < lastStep;
      const bool looks = evaluationDue(step) || saves || step == lastStep || runner->maskChange(step);
      SLUICE_RETURN_IF_ERROR(finishSteps(looks ? 0 : 1));
      if (evaluationDue(step))
        SLUICE_RETURN_IF_ERROR(evaluateDue());
      if (saves)
        SLUICE_RETURN_IF_ERROR(save());
    }
    SLUICE_RETURN_IF_ERROR(finishSteps(0));
    if (state.step < lastStep) // asked to stop
      return sums.steps > 0 ? log() : absl::OkStatus();
    SLUICE_RETURN_IF_ERROR(save());
    if (!evaluated || evaluatedAt != state.step) {
      // The run stops at no due evaluation: show where it stands, without making it part of the run's state.
      SLUICE_RETURN_IF_ERROR(evaluateNow(/*scheduled=*/state.evaluatedStep == state.step));
    }
    report.step = state.step;
    report.horizonSteps = schedule->steps();
    report.tokens = tokensAt(state.step);
    report.finished = state.step >= schedule->steps();
    report.bestStep = state.bestStep;
    report.bestNatsPerToken = state.bestNatsPerToken;
    return sample("", report.sampleAfter);
  }

  RecordPlace place() const {
    return {state.step,
            tokensAt(state.step),
            state.seenTokens,
            state.window < data->training.windows() ? state.seenTokens : data->training.tokensPerEpoch(),
            data->training.epoch(state.window),
            state.step - sums.steps < schedule->warmupSteps()};
  }

  Status log() {
    const double rate = schedule->rate(state.step);
    std::vector<std::string> warnings;
    RecordPlace here = place();
    SLUICE_RETURN_IF_ERROR(metrics->write(
        trainRecord(here, sums, rate, speed.tokensPerSecond(), config.lossWeights, watch, warnings)));
    for (const std::string &warning : warnings) {
      // A collapse is named when it begins; the record keeps saying so.
      std::string layer = warning.substr(0, warning.find(':'));
      if (named.insert(layer).second)
        progress.note(concat("warning: step ", state.step, ": ", warning));
    }
    ProgressState shown;
    shown.step = static_cast<uint64_t>(state.step);
    shown.totalSteps = static_cast<uint64_t>(lastStep);
    shown.loss = sums.loss();
    shown.tokensPerSecond = speed.tokensPerSecond();
    shown.secondsLeft = speed.secondsFor(static_cast<uint64_t>(tokensAt(lastStep - state.step)));
    progress.update(shown);
    sums.clear();
    return absl::OkStatus();
  }

  /// At the start, at every multiple of every_tokens and at the listed budgets (the first step that reaches
  /// them), at the horizon's end.
  bool evaluationDue(int64_t step) const {
    if (step == 0 || step == schedule->steps())
      return true;
    int64_t every = config.evaluateEveryTokens, here = tokensAt(step), before = tokensAt(step - 1);
    if (every > 0 && here / every > before / every)
      return true;
    for (int64_t budget : config.evaluateAtTokens)
      if (budget > before && budget <= here)
        return true;
    return false;
  }

  Status evaluateNow(bool scheduled) {
    SLUICE_ASSIGN_OR_RETURN(
        report.validation,
        evaluate(*session, *data->validation, static_cast<uint64_t>(config.evaluationWindows), stop));
    evaluated = true;
    evaluatedAt = state.step;
    progress.note(concat("step ", state.step, ": ", evaluationLine(report.validation)));
    return metrics->write(evaluationRecord(place(), report.validation, scheduled));
  }

  Status evaluateDue() {
    SLUICE_RETURN_IF_ERROR(evaluateNow(/*scheduled=*/true));
    state.evaluatedStep = state.step;
    double loss = report.validation.natsPerToken();
    if (state.step == 0 || (state.bestStep && loss >= state.bestNatsPerToken))
      return absl::OkStatus();
    state.bestStep = state.step;
    state.bestNatsPerToken = loss;
    SLUICE_RETURN_IF_ERROR(save());
    return store->mark("best", static_cast<uint64_t>(state.step));
  }

  Status save() {
    if (savedStep == state.step)
      return absl::OkStatus();
    SLUICE_RETURN_IF_ERROR(metrics->sync());
    CheckpointContents contents;
    contents.model = modelTensors(*session);
    contents.optimizer = optimizerTensors(*session);
    state.device = device.name();
    contents.state = state.toJson();
    SLUICE_ASSIGN_OR_RETURN(SaveReport saved, store->save(static_cast<uint64_t>(state.step), contents));
    for (const std::string &warning : saved.warnings)
      progress.note(concat("warning: ", warning));
    savedStep = state.step;
    report.checkpoint = saved.path;
    return absl::OkStatus();
  }

  /// Draws a sample into `text`; with a file, only once in a run's life: at step 0, kept for the end.
  Status sample(const std::string &file, std::string &text) {
    if (options.sampleTokens <= 0 || !session->has("logits"))
      return absl::OkStatus();
    std::string path = options.runFolder + "/" + file;
    if (!file.empty())
      if (StatusOr<std::string> kept = readFile(path); kept.ok()) {
        text = std::move(*kept);
        return absl::OkStatus();
      }
    if (!file.empty() && state.step > 0)
      return absl::OkStatus();
    GenerateOptions generation;
    generation.prompt = options.samplePrompt;
    generation.tokens = options.sampleTokens;
    generation.temperature = options.sampleTemperature;
    SLUICE_ASSIGN_OR_RETURN(text, generate(*session, data->dataset.tokenizer(), generation));
    return file.empty() ? absl::OkStatus() : writeFileAtomically(path, text);
  }

  const Executable &executable;
  Device &device;
  const TrainOptions &options;
  ProgressLine progress;
  TrainingConfig config;
  std::unique_ptr<TrainingData> data;
  std::optional<RunLock> lock;
  std::optional<Session> session;
  std::optional<StepRunner> runner;
  std::optional<Schedule> schedule;
  std::optional<CheckpointStore> store;
  std::optional<MetricsWriter> metrics;
  std::function<bool()> stop;
  RunState state;
  StepSums sums;
  SpeedMeter speed;
  double lastFinish = 0; // when the last step was finished, or the device's queue was last empty
  CollapseWatch watch;
  std::set<std::string> named; // layers whose collapse has been named
  int64_t lastStep = 0, savedStep = -1, evaluatedAt = -1;
  bool evaluated = false, deviceRecorded = false;
  TrainReport report;
};

} // namespace

StatusOr<TrainReport> train(const Executable &executable, Device &device, const TrainOptions &options) {
  return Trainer(executable, device, options).run();
}

} // namespace sluice
