// One optimizer step: micro-batches through `accumulate`, then `apply`, with the sums that the records need.
#pragma once

#include "runtime/data/Windows.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Evaluate.h"
#include "runtime/train/MaskSchedule.h"
#include "runtime/train/Masks.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// An auxiliary loss: its mean over micro-batches weighted by counted targets is weightedSum / targets.
struct AuxiliarySum {
  std::string name, output; // "balance", "auxiliary/balance"
  double weightedSum = 0;
};

/// routing_statistics of one MoE layer, summed: a count an expert, then the four sums of docs/commands.md.
struct RoutingSum {
  std::string layer, output; // "layers.0.moe", "routing/layers.0.moe"
  std::vector<double> sums;
};

/// What one or several steps did, as sums over their counted targets.
struct StepSums {
  int64_t steps = 0;
  double nats = 0;         // cross-entropy
  double targets = 0;      // counted
  double gradientNorm = 0; // of the last step: norm of the mean gradient, before clipping
  std::vector<AuxiliarySum> auxiliary;
  std::vector<RoutingSum> routing;

  double loss() const { return targets > 0 ? nats / targets : 0; }
  double auxiliaryLoss(const AuxiliarySum &loss) const {
    return targets > 0 ? loss.weightedSum / targets : 0;
  }
  /// Zero again; names and sizes stay.
  void clear();
};

class StepRunner {
public:
  /// Reads the shapes and outputs of entry points accumulate and apply. Errors: an input or output of the
  /// contract is missing (bad input); batchTokens is not a multiple of batch x seq (usage).
  static StatusOr<StepRunner> create(Session &session, int64_t batchTokens);

  /// Masks are updated after steps as `schedule` says; `seed` keys the weights that grow. Errors (bad input):
  /// the executable has no entry point for it.
  Status updateMasks(const MaskSchedule &schedule, int64_t seed);

  /// What the update after step `step` did; null if none followed it. Valid until the next update.
  const MaskChange *maskChange(int64_t step) const { return change.step == step ? &change : nullptr; }

  int64_t microBatches() const { return count; }
  /// Windows of one step: micro-batches x batch.
  uint64_t windows() const { return static_cast<uint64_t>(count * shape.batch); }
  int64_t sequence() const { return shape.sequence; }
  /// Sums with the names of this executable, all zero.
  StepSums emptySums() const;

  /// Runs step `step` (1-based) on windows `firstWindow` .. of the stream and adds to `sums`. Allocates
  /// nothing. A loss or gradient norm that is not finite is a diverged error that names step, micro-batch and
  /// the first state tensor that is not finite; parameters and moments are then as before the step, gradients
  /// are not.
  Status run(const WindowStream &stream, uint64_t firstWindow, int64_t step, double learningRate,
             StepSums &sums);

private:
  explicit StepRunner(Session &session) : session(&session) {}
  Status accumulate(const WindowStream &stream, uint64_t firstWindow, int64_t step, StepSums &sums);
  Status readOutputs(std::string_view entry, double targets, StepSums &sums);
  Status updateTopology(int64_t step);
  Status diverged(const std::string &what) const;

  Session *session;
  BatchShape shape;
  int64_t count = 0;
  std::vector<int32_t> tokens, targets;
  std::vector<float> statistics; // room for the largest routing output
  StepSums names;
  MaskSchedule masks;
  int64_t maskSeed = 0;
  struct WatchedMask {
    const StateTensor *mask;
    std::string before, after;
  };
  std::vector<WatchedMask> watched; // in the order of change.layers
  MaskChange change;
};

} // namespace sluice
