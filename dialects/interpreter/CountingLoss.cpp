// Losses and routing statistics with counting scalars. Which targets are counted is data: a figure of the
// graph holds for targets that all count.
#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace sluice::counting {

Scalar logSumExpRow(const double *row, int64_t size, std::vector<Scalar> *exponentials, Scalar *sum) {
  Scalar largest = -INFINITY, total;
  for (int64_t i = 0; i < size; ++i)
    largest = maximum(largest, row[i]);
  for (int64_t i = 0; i < size; ++i) {
    const Scalar exponential = exp(row[i] - largest);
    total += exponential;
    if (exponentials)
      exponentials->push_back(exponential);
  }
  if (sum)
    *sum = total;
  return largest + log(total);
}

namespace {

bool isIgnored(const HostTensor &targets, int64_t t, uint64_t ignored) {
  return static_cast<int64_t>(targets[t]) == static_cast<int64_t>(ignored);
}

void runCrossEntropy(CrossEntropyOp op, Frame &frame) {
  const HostTensor &logits = frame.in(0), &targets = frame.in(1);
  Scalar total;
  for (int64_t t = 0; t < targets.size(); ++t)
    if (!isIgnored(targets, t, op.getIgnoreIndex())) {
      const double *row = &logits.values[t * logits.columns()];
      total += logSumExpRow(row, logits.columns()) - row[static_cast<int64_t>(targets[t])];
    }
  frame.out()[0] = total.value;
}

void runCrossEntropyGradient(CrossEntropyGradientOp op, Frame &frame) {
  const HostTensor &logits = frame.in(0), &targets = frame.in(1);
  const int64_t classes = logits.columns();
  for (int64_t t = 0; t < targets.size(); ++t) {
    if (isIgnored(targets, t, op.getIgnoreIndex()))
      continue;
    double *row = &frame.out().values[t * classes];
    softmaxRow(&logits.values[t * classes], classes, row);
    if (!std::isfinite(logits[t * classes + static_cast<int64_t>(targets[t])])) // nor is the loss
      std::fill(row, row + classes, std::numeric_limits<double>::quiet_NaN());
    double &target = row[static_cast<int64_t>(targets[t])];
    target = (Scalar(target) - 1.0).value;
    for (int64_t c = 0; c < classes; ++c)
      row[c] = (Scalar(row[c]) * frame.in(2)[0]).value;
  }
}

void runCountTargets(CountTargetsOp op, Frame &frame) {
  Scalar count;
  for (int64_t t = 0; t < frame.in(0).size(); ++t) {
    ++Tally::get().compare;
    count += isIgnored(frame.in(0), t, op.getIgnoreIndex()) ? 0.0 : 1.0;
  }
  frame.out()[0] = count.value;
}

/// f_i: every expert's number of assignments of counted tokens, one index operation a slot.
std::vector<double> assignments(const RoutingView &routing, const HostTensor &targets, uint64_t ignored) {
  std::vector<double> counts(routing.experts, 0.0);
  for (int64_t slot = 0; slot < routing.rows; ++slot) {
    indexOnce();
    if (!isIgnored(targets, slot / routing.topK, ignored))
      counts[routing.expert(slot)] += 1;
  }
  return counts;
}

void runBalance(SwitchBalanceOp op, Frame &frame) {
  const RoutingView routing(frame.in(1), routingTypeOf(op.getRouting()));
  const HostTensor &targets = frame.in(2);
  const auto counted =
      static_cast<double>(countedTargets(targets, static_cast<int64_t>(op.getIgnoreIndex())));
  const int64_t experts = routing.experts;
  if (counted == 0)
    return;
  const std::vector<double> chosen = assignments(routing, targets, op.getIgnoreIndex());
  std::vector<Scalar> means(experts);
  for (int64_t t = 0; t < routing.tokens; ++t) {
    if (isIgnored(targets, t, op.getIgnoreIndex()))
      continue;
    const double *p = &frame.in(0).values[t * experts];
    Scalar sum = p[0];
    if (op.getNormalize())
      for (int64_t e = 1; e < experts; ++e)
        sum += p[e];
    for (int64_t e = 0; e < experts; ++e)
      means[e] += op.getNormalize() ? p[e] / sum : Scalar(p[e]);
  }
  Scalar loss;
  for (int64_t e = 0; e < experts; ++e) {
    const Scalar term =
        Scalar(chosen[e]) / (counted * static_cast<double>(routing.topK)) * (means[e] / counted);
    loss = e == 0 ? term : loss + term;
  }
  frame.out()[0] = (loss * static_cast<double>(experts)).value;
}

void runBalanceGradient(SwitchBalanceGradientOp op, Frame &frame) {
  const RoutingView routing(frame.in(1), routingTypeOf(op.getRouting()));
  const HostTensor &targets = frame.in(2);
  const auto counted =
      static_cast<double>(countedTargets(targets, static_cast<int64_t>(op.getIgnoreIndex())));
  const int64_t experts = routing.experts;
  if (counted == 0)
    return;
  const std::vector<double> chosen = assignments(routing, targets, op.getIgnoreIndex());
  std::vector<Scalar> slopes; // g experts f_e / counted
  slopes.reserve(static_cast<size_t>(experts));
  for (int64_t e = 0; e < experts; ++e)
    slopes.push_back(Scalar(chosen[e]) / (counted * static_cast<double>(routing.topK)) *
                     static_cast<double>(experts) * frame.in(3)[0] / counted);
  for (int64_t t = 0; t < routing.tokens; ++t) {
    if (isIgnored(targets, t, op.getIgnoreIndex()))
      continue;
    const double *p = &frame.in(0).values[t * experts];
    double *dp = &frame.out().values[t * experts];
    if (!op.getNormalize()) {
      for (int64_t e = 0; e < experts; ++e)
        dp[e] = slopes[e].value;
      continue;
    }
    Scalar sum = p[0], mean = slopes[0] * p[0];
    for (int64_t e = 1; e < experts; ++e)
      sum += p[e], mean += slopes[e] * p[e];
    mean = mean / sum;
    for (int64_t e = 0; e < experts; ++e)
      dp[e] = ((slopes[e] - mean) / sum).value;
  }
}

void runRouterZ(RouterZOp op, Frame &frame) {
  const HostTensor &logits = frame.in(0), &targets = frame.in(1);
  const auto counted =
      static_cast<double>(countedTargets(targets, static_cast<int64_t>(op.getIgnoreIndex())));
  if (counted == 0)
    return;
  Scalar total;
  for (int64_t t = 0; t < targets.size(); ++t)
    if (!isIgnored(targets, t, op.getIgnoreIndex())) {
      const Scalar z = logSumExpRow(&logits.values[t * logits.columns()], logits.columns());
      total += z * z;
    }
  frame.out()[0] = (total / counted).value;
}

void runRouterZGradient(RouterZGradientOp op, Frame &frame) {
  const HostTensor &logits = frame.in(0), &targets = frame.in(1);
  const auto counted =
      static_cast<double>(countedTargets(targets, static_cast<int64_t>(op.getIgnoreIndex())));
  const int64_t experts = logits.columns();
  if (counted == 0)
    return;
  const Scalar rate = Scalar(frame.in(2)[0]) / counted;
  for (int64_t t = 0; t < targets.size(); ++t) {
    if (isIgnored(targets, t, op.getIgnoreIndex()))
      continue;
    std::vector<Scalar> exponentials;
    Scalar sum;
    const Scalar z = logSumExpRow(&logits.values[t * experts], experts, &exponentials, &sum);
    const Scalar factor = 2.0 * rate * z;
    for (int64_t e = 0; e < experts; ++e)
      frame.out()[t * experts + e] = (factor * (exponentials[e] / sum)).value;
  }
}

void runStatistics(RoutingStatisticsOp op, Frame &frame) {
  const RoutingView routing(frame.in(2), routingTypeOf(op.getRouting()));
  const HostTensor &targets = frame.in(3);
  const int64_t experts = routing.experts;
  HostTensor &statistics = frame.out();
  auto add = [&](int64_t at, Scalar value) { statistics[at] = (Scalar(statistics[at]) + value).value; };
  for (int64_t t = 0; t < routing.tokens; ++t) {
    if (isIgnored(targets, t, op.getIgnoreIndex()))
      continue;
    for (int64_t j = 0; j < routing.topK; ++j) {
      indexOnce();
      statistics[routing.expert(t * routing.topK + j)] += 1;
    }
    const double *p = &frame.in(1).values[t * experts];
    Scalar sum, entropy, largest = -INFINITY;
    for (int64_t e = 0; e < experts; ++e)
      sum += p[e];
    for (int64_t e = 0; e < experts; ++e) {
      const Scalar q = p[e] / sum, term = q * log(q);
      entropy -= p[e] > 0 ? term : Scalar(0.0);
      largest = maximum(largest, p[e]);
    }
    add(experts, entropy);
    add(experts + 1, logSumExpRow(&frame.in(0).values[t * experts], experts));
    add(experts + 2, largest);
    add(experts + 3, 1.0);
  }
}

} // namespace

bool runLoss(Frame &frame) {
  if (auto op = dyn_cast<CrossEntropyOp>(frame.op))
    return runCrossEntropy(op, frame), true;
  if (auto op = dyn_cast<CrossEntropyGradientOp>(frame.op))
    return runCrossEntropyGradient(op, frame), true;
  if (auto op = dyn_cast<CountTargetsOp>(frame.op))
    return runCountTargets(op, frame), true;
  if (auto op = dyn_cast<SwitchBalanceOp>(frame.op))
    return runBalance(op, frame), true;
  if (auto op = dyn_cast<SwitchBalanceGradientOp>(frame.op))
    return runBalanceGradient(op, frame), true;
  if (auto op = dyn_cast<RouterZOp>(frame.op))
    return runRouterZ(op, frame), true;
  if (auto op = dyn_cast<RouterZGradientOp>(frame.op))
    return runRouterZGradient(op, frame), true;
  if (auto op = dyn_cast<RoutingStatisticsOp>(frame.op))
    return runStatistics(op, frame), true;
  return false;
}

} // namespace sluice::counting
