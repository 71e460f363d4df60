#include "runtime/device/Selection.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RouteScore.h"
#include "runtime/device/cpu/RowMath.h"

#include <cmath>

namespace sluice::cpu {
namespace {

/// Whether key a (of expert or group i) is chosen before key b (of j): larger first, ties to the lower index,
/// NaN after everything.
bool precedes(float a, int64_t i, float b, int64_t j) {
  const bool nanA = std::isnan(a), nanB = std::isnan(b);
  if (nanA != nanB)
    return nanB;
  if (!nanA && a != b)
    return a > b;
  return i < j;
}

/// The first `count` of [begin, end) in that order, by insertion into a short sorted list; `filled` are
/// there.
int64_t insertBest(const float *keys, int64_t begin, int64_t end, int64_t count, int64_t filled,
                   int32_t *ids) {
  for (int64_t expert = begin; expert < end; ++expert) {
    if (filled == count && !precedes(keys[expert], expert, keys[ids[count - 1]], ids[count - 1]))
      continue;
    int64_t place = filled < count ? filled++ : count - 1;
    for (; place > 0 && precedes(keys[expert], expert, keys[ids[place - 1]], ids[place - 1]); --place)
      ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(expert);
  }
  return filled;
}

void select(const Selection &selection, const float *keys, int64_t experts, int64_t topK, int32_t *ids) {
  if (selection.groups == 1) {
    insertBest(keys, 0, experts, topK, 0, ids);
    return;
  }
  const int64_t size = experts / selection.groups;
  float scores[Selection::mostGroups];
  for (int64_t group = 0; group < selection.groups; ++group) {
    int32_t best[2];
    const int64_t count = selection.sumOfBestTwo ? 2 : 1;
    insertBest(keys, group * size, (group + 1) * size, count, 0, best);
    scores[group] = keys[best[0]] + (selection.sumOfBestTwo ? keys[best[1]] : 0.0f);
  }
  int32_t keptGroups[Selection::mostGroups];
  insertBest(scores, 0, selection.groups, selection.kept, 0, keptGroups);
  int64_t filled = 0;
  for (int64_t i = 0; i < selection.kept; ++i)
    filled = insertBest(keys, keptGroups[i] * size, (keptGroups[i] + 1) * size, topK, filled, ids);
}

/// Groups the slots by expert, keeping their order (a counting sort).
void groupRows(const RoutingBuffer &routing) {
  int32_t *offsets = routing.offsets();
  std::fill_n(offsets, routing.experts + 1, 0);
  for (int64_t slot = 0; slot < routing.rows(); ++slot)
    ++offsets[routing.ids[slot] + 1];
  for (int64_t expert = 0; expert < routing.experts; ++expert)
    offsets[expert + 1] += offsets[expert];
  // offsets[e] walks through expert e's rows and ends at the next expert's first row: shift it back
  // afterwards.
  for (int64_t slot = 0; slot < routing.rows(); ++slot) {
    const int32_t row = offsets[routing.ids[slot]]++;
    routing.slotRow()[slot] = row;
    routing.rowSlot()[row] = static_cast<int32_t>(slot);
  }
  for (int64_t expert = routing.experts; expert > 0; --expert)
    offsets[expert] = offsets[expert - 1];
  offsets[0] = 0;
}

} // namespace

RouteScore routeScore(Arguments &arguments) {
  RouteScore score{};
  score.sigmoid = arguments.integer("score", 0, 1) == 1;
  score.renormalize = arguments.flag("renormalize");
  score.epsilon = static_cast<float>(arguments.number("epsilon"));
  score.scale = static_cast<float>(arguments.number("scale"));
  return score;
}

StatusOr<PreparedKernel> prepareRoute(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1, 2);
  arguments.outputs(3);
  const Tensor logits = arguments.input(0), buffer = arguments.output(0, ElementType::I32);
  const Tensor gates = arguments.output(1), probs = arguments.output(2);
  const int64_t tokens = logits.rows(), experts = logits.dim(-1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  const int64_t topK = routing.topK;
  const RouteScore score = routeScore(arguments);
  const Selection selection = readSelection(arguments, experts, topK);
  arguments.require(tokens <= INT32_MAX / topK, "T * K must fit into 31 bits");
  arguments.elements(gates, tokens * topK, "gates");
  arguments.elements(probs, logits.elements, "probs");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  // Keys are the logits, or probability + bias in the worker's scratch.
  const bool comparesProbabilities = selection.comparesProbabilities();
  const float *bias = selection.bias.f32();
  constexpr int64_t grain = 64;
  PreparedKernel kernel;
  kernel.scratchBytes = comparesProbabilities ? floatBytes(experts) : 0;
  kernel.stages.push_back({ceilDivide(tokens, grain), [=](const Tile &tile) {
                             const int64_t begin = tile.index * grain, end = std::min(tokens, begin + grain);
                             for (int64_t token = begin; token < end; ++token) {
                               const float *row = logits.f32() + token * experts;
                               float *p = probs.f32() + token * experts, *gate = gates.f32() + token * topK;
                               int32_t *ids = routing.ids + token * topK;
                               if (score.sigmoid) {
                                 for (int64_t expert = 0; expert < experts; ++expert)
                                   p[expert] = 1.0f / (1.0f + std::exp(-row[expert]));
                               } else {
                                 const float mass = rowExp(row, experts, 1.0f, rowMax(row, experts), p);
                                 rowScale(p, experts, 1.0f / mass, p);
                               }
                               if (comparesProbabilities) {
                                 float *keys = reinterpret_cast<float *>(tile.scratch);
                                 for (int64_t expert = 0; expert < experts; ++expert)
                                   keys[expert] = p[expert] + (bias ? bias[expert] : 0.0f);
                                 select(selection, keys, experts, topK, ids);
                               } else {
                                 select(selection, row, experts, topK, ids);
                               }
                               float sum = score.epsilon;
                               for (int64_t j = 0; j < topK; ++j)
                                 sum += p[ids[j]];
                               const float factor = score.renormalize ? score.scale / sum : score.scale;
                               for (int64_t j = 0; j < topK; ++j)
                                 gate[j] = p[ids[j]] * factor;
                             }
                           }});
  kernel.stages.push_back({1, [=](const Tile &) { groupRows(routing); }});
  return kernel;
}

// Adjoint of gates and probs; the ids are constants. With D = sum of the chosen p + epsilon and gate_j =
// scale p_j / D: dp_j += scale (dgate_j / D - sum_i dgate_i p_i / D^2). Then through the score: p (dp - sum p
// dp) or dp p (1 - p).
StatusOr<PreparedKernel> prepareRouteGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(5);
  arguments.outputs(1);
  const Tensor probs = arguments.input(0), gates = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor dgates = arguments.input(3), dprobs = arguments.input(4), dlogits = arguments.output(0);
  const int64_t tokens = probs.rows(), experts = probs.dim(-1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  const int64_t topK = routing.topK;
  const RouteScore score = routeScore(arguments);
  arguments.elements(gates, tokens * topK, "gates");
  arguments.elements(dgates, tokens * topK, "dgates");
  arguments.elements(dprobs, probs.elements, "dprobs");
  arguments.elements(dlogits, probs.elements, "dlogits");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(tokens, 64, [=](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float *p = probs.f32() + token * experts, *dgate = dgates.f32() + token * topK;
      const int32_t *ids = routing.ids + token * topK;
      float *dx = dlogits.f32() + token * experts;
      std::copy_n(dprobs.f32() + token * experts, experts, dx);
      double sum = score.epsilon, weighted = 0;
      for (int64_t j = 0; j < topK; ++j) {
        sum += p[ids[j]];
        weighted += static_cast<double>(dgate[j]) * p[ids[j]];
      }
      for (int64_t j = 0; j < topK; ++j)
        dx[ids[j]] += static_cast<float>(score.scale * (score.renormalize ? (dgate[j] - weighted / sum) / sum
                                                                          : static_cast<double>(dgate[j])));
      double inner = 0;
      for (int64_t expert = 0; expert < experts; ++expert)
        inner += static_cast<double>(p[expert]) * dx[expert];
      for (int64_t expert = 0; expert < experts; ++expert)
        dx[expert] = score.sigmoid ? dx[expert] * p[expert] * (1.0f - p[expert])
                                   : p[expert] * static_cast<float>(dx[expert] - inner);
    }
  }));
  return kernel;
}

} // namespace sluice::cpu
