// One optimizer step: micro-batches through `accumulate`, then `apply`, with the sums that the records need.
// All that it gives the device is one sequence with fixed places, which the device may record and replay.
#pragma once

#include "runtime/data/Windows.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Evaluate.h"
#include "runtime/train/MaskSchedule.h"
#include "runtime/train/Masks.h"

#include <cstdint>
#include <memory>
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

/// Steps are started and finished apart, so that the host can put the next step into the device's queue
/// before it looks at the last one. Between a start and its finish nothing waits for the device.
class StepRunner {
public:
  /// How many steps may be started and not finished.
  static constexpr int maximumInFlight = 2;

  /// Reads the shapes and outputs of entry points accumulate and apply.
  /// Errors: an input or output of the contract is missing (bad input); batchTokens is not a multiple of
  /// batch x seq (usage).
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

  /// Puts step `step` (1-based) on windows `firstWindow` .. of the stream into the device's queue. The first
  /// step (and the first that sums dense gradients) prepares the entry points; no later one allocates. Only a
  /// step after which masks change waits for the device, to change none after a step that failed. Errors: too
  /// many steps in flight (failure); no target to learn from (usage); after a mask's wait those of finish.
  Status start(const WindowStream &stream, uint64_t firstWindow, int64_t step, double learningRate);
  /// Waits for the oldest started step and adds what it did to `sums`. A loss or gradient norm that is not
  /// finite is a diverged error that names step, micro-batch and the first state tensor that is not finite;
  /// parameters and moments are then as before the step, whatever was started after it, gradients are not,
  /// and nothing is in flight any more.
  Status finish(StepSums &sums);
  int inFlight() const { return started; }

  /// A start and all finishes.
  Status run(const WindowStream &stream, uint64_t firstWindow, int64_t step, double learningRate,
             StepSums &sums);

private:
  /// A started step. Each flight has sequences of its own, so that the host may write the next step's inputs
  /// and read the last one's results while the device is at work on the other.
  struct Flight {
    int64_t step = 0;
    double counted = 0;                           // targets of the step
    std::unique_ptr<DeviceSequence> plain, dense; // the second through accumulate_dense; null until needed
    DeviceSequence *running = nullptr;
  };
  /// Where things lie in a sequence's room, in bytes: tokens and targets of each micro-batch, the three
  /// numbers of `apply`, the results of each micro-batch, the gradient norm.
  struct RoomPlan {
    uint64_t batch = 0; // of tokens, or targets, of one micro-batch
    uint64_t learningRate = 0, step = 0, tokens = 0;
    uint64_t results = 0, resultBytes = 0; // the second of one micro-batch
    uint64_t norm = 0, size = 0;
  };

  explicit StepRunner(Session &session) : session(&session) {}
  Status checkDenseEntry() const;
  std::string_view accumulateEntry(int64_t step) const;
  /// Sequences of all flights through this entry point, made at its first step.
  Status makeSequences(std::string_view entry, std::unique_ptr<DeviceSequence> Flight::*place);
  Flight &oldest() { return flights[static_cast<size_t>(first)]; }
  int32_t *tokensOf(const Flight &flight, int64_t micro) const;
  int32_t *targetsOf(const Flight &flight, int64_t micro) const;
  /// Waits for the step; an error if it diverged.
  Status settle(Flight &flight);
  Status updateTopology(int64_t step);
  /// The error of `what` in micro-batches up to `lastMicro` of a step: runs them again to name a tensor.
  Status diverged(const Flight &flight, int64_t lastMicro, const std::string &what);
  float result(const Flight &flight, uint64_t at) const; // of its room

  Session *session;
  BatchShape shape;
  int64_t count = 0;
  RoomPlan plan;
  StepSums names;
  Flight flights[maximumInFlight];
  int first = 0, started = 0;
  MaskSchedule masks;
  int64_t maskSeed = 0;
  struct WatchedMask {
    ModelMask mask;
    std::string before, after; // its bits
  };
  std::vector<WatchedMask> watched; // in the order of change.layers
  MaskChange change;
};

} // namespace sluice
