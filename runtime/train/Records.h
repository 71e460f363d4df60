// The run's records: what goes into metrics.jsonl, and what a person sees meanwhile.
#pragma once

#include "runtime/metrics/MetricsWriter.h"
#include "runtime/metrics/Progress.h"
#include "runtime/metrics/Routing.h"
#include "runtime/train/Evaluate.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/TrainingConfig.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Where a run is when something is recorded.
struct RecordPlace {
  int64_t step = 0;
  int64_t tokens = 0;        // read: step x batch_tokens
  uint64_t seenTokens = 0;   // counted targets learned from
  uint64_t uniqueTokens = 0; // of these, different ones
  double epoch = 0;
  bool warmup = false; // the interval reaches into the warmup
};

/// Bytes of `text` (a metrics file) up to the end of the last line whose record is of a step up to `step`; 0
/// when there is none. A resumed run continues there.
uint64_t metricsOffset(const std::string &text, int64_t step);

/// The record of the steps since the last one: loss parts apart, rate, norm, speed, and per MoE layer the
/// routing. `warnings` gets a line for every layer whose collapse lasts, as `watch` judges it; the record's
/// `collapsed` speaks of this interval alone.
nlohmann::ordered_json trainRecord(const RecordPlace &place, const StepSums &sums, double learningRate,
                                   double tokensPerSecond,
                                   const std::vector<std::pair<std::string, double>> &lossWeights,
                                   CollapseWatch &watch, std::vector<std::string> &warnings);

/// The record of an evaluation; `scheduled` tells a due one from one made because the run stops here.
nlohmann::ordered_json evaluationRecord(const RecordPlace &place, const Evaluation &evaluation,
                                        bool scheduled);

/// The record of an update of the masks.
nlohmann::ordered_json maskRecord(const RecordPlace &place, const MaskChange &change);

/// "validation 3.2145 nats/token, 1.5123 bits/byte, 1.5130 bits/character (12,345 tokens)".
std::string evaluationLine(const Evaluation &evaluation);

} // namespace sluice
