// Routing and the products of experts with counting scalars.
#include "dialects/interpreter/CountingFamilies.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <algorithm>

using namespace mlir;

namespace sluice::counting {
namespace {

/// Whether logit a is chosen before logit b: larger; on a tie the lower index; a NaN last. One comparison.
bool isChosenBefore(const double *logits, int64_t a, int64_t b) {
  ++Tally::get().compare;
  if (std::isnan(logits[a]) != std::isnan(logits[b]))
    return std::isnan(logits[b]);
  return logits[a] != logits[b] && !std::isnan(logits[a]) ? logits[a] > logits[b] : a < b;
}

void scores(const double *logits, int64_t experts, bool softmax, double *target) {
  if (softmax)
    return softmaxRow(logits, experts, target);
  for (int64_t e = 0; e < experts; ++e)
    target[e] = (1.0 / (1.0 + exp(-Scalar(logits[e])))).value;
}

/// Takes the best of `left` out of it.
int64_t takeBest(const double *keys, std::vector<int64_t> &left) {
  size_t best = 0;
  for (size_t other = 1; other < left.size(); ++other)
    if (isChosenBefore(keys, left[other], left[best]))
      best = other;
  const int64_t expert = left[best];
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
  return expert;
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers;
  for (int64_t i = begin; i < end; ++i)
    numbers.push_back(i);
  return numbers;
}

/// The experts of the kept groups, in increasing order.
std::vector<int64_t> openExperts(RouteOp op, const std::vector<double> &keys) {
  const int64_t experts = static_cast<int64_t>(keys.size()), groups = static_cast<int64_t>(op.getGroups());
  if (groups == 1)
    return range(0, experts);
  const int64_t size = experts / groups;
  std::vector<double> groupKeys;
  for (int64_t group = 0; group < groups; ++group) {
    std::vector<int64_t> members = range(group * size, (group + 1) * size);
    Scalar key = keys[takeBest(keys.data(), members)];
    if (op.sumsGroups())
      key = key + keys[takeBest(keys.data(), members)];
    groupKeys.push_back(key.value);
  }
  std::vector<int64_t> left = range(0, groups), kept, open;
  for (uint64_t i = 0; i < op.getGroupsKept(); ++i)
    kept.push_back(takeBest(groupKeys.data(), left));
  std::sort(kept.begin(), kept.end());
  for (int64_t group : kept)
    for (int64_t expert : range(group * size, (group + 1) * size))
      open.push_back(expert);
  return open;
}

void runRoute(RouteOp op, Frame &frame) {
  const RoutingType type = routingTypeOf(op.getRouting());
  const int64_t experts = type.getExperts(), topK = type.getTopK();
  const double epsilon = op.getEpsilon().convertToDouble(), scale = op.getScale().convertToDouble();
  HostTensor &routing = frame.out(0), &gates = frame.out(1), &probabilities = frame.out(2);
  for (int64_t t = 0; t < type.tokenCount(); ++t) {
    const double *row = &frame.in(0).values[t * experts];
    scores(row, experts, op.getScore() == "softmax", &probabilities.values[t * experts]);
    std::vector<double> keys(row, row + experts);
    if (op.comparesProbabilities())
      for (int64_t e = 0; e < experts; ++e)
        keys[e] = op.getBias() ? (Scalar(probabilities[t * experts + e]) + frame.in(1)[e]).value
                               : probabilities[t * experts + e];
    std::vector<int64_t> left = openExperts(op, keys);
    Scalar sum;
    for (int64_t j = 0; j < topK; ++j) {
      const int64_t best = takeBest(keys.data(), left);
      routing[t * topK + j] = static_cast<double>(best);
      gates[t * topK + j] = probabilities[t * experts + best];
      for (int step = 0; step < 3; ++step) // count, place, invert
        indexOnce();
    }
    if (op.getRenormalize()) {
      sum = gates[t * topK];
      for (int64_t j = 1; j < topK; ++j)
        sum += gates[t * topK + j];
      if (epsilon != 0)
        sum += epsilon;
      for (int64_t j = 0; j < topK; ++j)
        gates[t * topK + j] = (Scalar(gates[t * topK + j]) / sum).value;
    }
    if (scale != 1)
      for (int64_t j = 0; j < topK; ++j)
        gates[t * topK + j] = (Scalar(gates[t * topK + j]) * scale).value;
  }
  groupRows(routing, type);
}

void runRouteGradient(RouteGradientOp op, Frame &frame) {
  const RoutingType type = routingTypeOf(op.getRouting());
  const int64_t experts = type.getExperts(), topK = type.getTopK();
  const HostTensor &probabilities = frame.in(0), &dgates = frame.in(3), &dprobabilities = frame.in(4);
  const RoutingView routing(frame.in(2), type);
  const double epsilon = op.getEpsilon().convertToDouble(), scale = op.getScale().convertToDouble();
  for (int64_t t = 0; t < routing.tokens; ++t) {
    const double *p = &probabilities.values[t * experts];
    std::vector<Scalar> dp(&dprobabilities.values[t * experts],
                           &dprobabilities.values[t * experts] + experts);
    auto q = [&](int64_t j) { return Scalar(p[routing.expert(t * topK + j)]); };
    auto dgate = [&](int64_t j) { return Scalar(dgates[t * topK + j]); };
    Scalar sum, inner;
    if (op.getRenormalize()) {
      sum = q(0), inner = dgate(0) * q(0);
      for (int64_t j = 1; j < topK; ++j)
        sum += q(j), inner += dgate(j) * q(j);
      if (epsilon != 0)
        sum += epsilon;
      inner = inner / sum;
    }
    for (int64_t j = 0; j < topK; ++j) {
      Scalar dq = op.getRenormalize() ? (dgate(j) - inner) / sum : dgate(j);
      if (scale != 1)
        dq *= scale;
      dp[routing.expert(t * topK + j)] += dq;
    }
    double *dlogits = &frame.out().values[t * experts];
    if (op.getScore() == "softmax") {
      Scalar mean = Scalar(p[0]) * dp[0];
      for (int64_t e = 1; e < experts; ++e)
        mean += Scalar(p[e]) * dp[e];
      for (int64_t e = 0; e < experts; ++e)
        dlogits[e] = (Scalar(p[e]) * (dp[e] - mean)).value;
    } else {
      for (int64_t e = 0; e < experts; ++e)
        dlogits[e] = (Scalar(p[e]) * (1.0 - Scalar(p[e])) * dp[e]).value;
    }
  }
}

void runDispatch(DispatchOp op, Frame &frame) {
  const RoutingView routing(frame.in(1), routingTypeOf(op.getRouting()));
  const int64_t width = frame.out().columns();
  for (int64_t row = 0; row < routing.rows; ++row) {
    indexOnce();
    for (int64_t i = 0; i < width; ++i) {
      const double x = frame.in(0)[routing.tokenOfRow(row) * width + i];
      frame.out()[row * width + i] =
          op.getGates() ? (Scalar(x) * frame.in(2)[routing.slotOfRow(row)]).value : x;
    }
  }
}

void runCombine(CombineOp op, Frame &frame) {
  const RoutingView routing(frame.in(1), routingTypeOf(op.getRouting()));
  const int64_t width = frame.out().columns();
  for (int64_t slot = 0; slot < routing.rows; ++slot) {
    indexOnce();
    for (int64_t i = 0; i < width; ++i) {
      Scalar term = frame.in(0)[routing.rowOfSlot(slot) * width + i];
      if (op.getGates())
        term *= frame.in(2)[slot];
      double &target = frame.out()[slot / routing.topK * width + i];
      target = slot % routing.topK == 0 ? term.value : (Scalar(target) + term).value;
    }
  }
}

void runGateGradient(CombineGateGradientOp op, Frame &frame) {
  const RoutingView routing(frame.in(2), routingTypeOf(op.getRouting()));
  const int64_t width = frame.in(0).columns();
  for (int64_t slot = 0; slot < routing.rows; ++slot) {
    indexOnce();
    auto term = [&](int64_t i) {
      return Scalar(frame.in(0)[slot / routing.topK * width + i]) *
             frame.in(1)[routing.rowOfSlot(slot) * width + i];
    };
    Scalar sum = term(0);
    for (int64_t i = 1; i < width; ++i)
      sum += term(i);
    frame.out()[slot] = sum.value;
  }
}

/// Calls `body(expert, row)` for all rows.
template <typename Body> void forEachRow(const RoutingView &routing, Body body) {
  for (int64_t expert = 0; expert < routing.experts; ++expert)
    for (int64_t row = routing.offset(expert); row < routing.offset(expert + 1); ++row)
      body(expert, row);
}

void runGroupedLinear(GroupedLinearOp op, Frame &frame) {
  const RoutingView routing(frame.in(2), routingTypeOf(op.getRouting()));
  const HostTensor &x = frame.in(0), &weight = frame.in(1);
  const HostTensor *mask = op.getMask() ? &frame.in(op.getBias() ? 4 : 3) : nullptr;
  const int64_t in = x.columns(), out = frame.out().columns();
  forEachRow(routing, [&](int64_t expert, int64_t row) {
    for (int64_t o = 0; o < out; ++o) {
      double &sum = frame.out()[row * out + o];
      for (int64_t i = 0; i < in; ++i) {
        const int64_t at = expert * in * out + (op.getTransposeWeight() ? i * out + o : o * in + i);
        if (!mask || (*mask)[at] != 0)
          multiplyAdd(sum, x[row * in + i], weight[at]);
      }
      if (op.getBias())
        sum = (Scalar(sum) + frame.in(3)[expert * out + o]).value;
    }
  });
}

void runGroupedWeightGradient(GroupedWeightGradientOp op, Frame &frame) {
  const RoutingView routing(frame.in(2), routingTypeOf(op.getRouting()));
  const HostTensor &dy = frame.in(0), &x = frame.in(1);
  const int64_t in = x.columns(), out = dy.columns();
  forEachRow(routing, [&](int64_t expert, int64_t row) {
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        if (!op.getMask() || frame.in(3)[(expert * out + o) * in + i] != 0)
          multiplyAdd(frame.out()[(expert * out + o) * in + i], dy[row * out + o], x[row * in + i]);
  });
}

void runGroupedSum(GroupedSumOp op, Frame &frame) {
  const RoutingView routing(frame.in(1), routingTypeOf(op.getRouting()));
  const int64_t out = frame.in(0).columns();
  forEachRow(routing, [&](int64_t expert, int64_t row) {
    for (int64_t o = 0; o < out; ++o) {
      double &sum = frame.out()[expert * out + o];
      sum = (Scalar(sum) + frame.in(0)[row * out + o]).value;
    }
  });
}

} // namespace

bool runRouting(Frame &frame) {
  if (auto op = dyn_cast<RouteOp>(frame.op))
    return runRoute(op, frame), true;
  if (auto op = dyn_cast<RouteGradientOp>(frame.op))
    return runRouteGradient(op, frame), true;
  if (auto op = dyn_cast<DispatchOp>(frame.op))
    return runDispatch(op, frame), true;
  if (auto op = dyn_cast<CombineOp>(frame.op))
    return runCombine(op, frame), true;
  if (auto op = dyn_cast<CombineGateGradientOp>(frame.op))
    return runGateGradient(op, frame), true;
  if (auto op = dyn_cast<GroupedLinearOp>(frame.op))
    return runGroupedLinear(op, frame), true;
  if (auto op = dyn_cast<GroupedWeightGradientOp>(frame.op))
    return runGroupedWeightGradient(op, frame), true;
  if (auto op = dyn_cast<GroupedSumOp>(frame.op))
    return runGroupedSum(op, frame), true;
  return false;
}

} // namespace sluice::counting
