#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RoutingBuffer.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/TokenSums.h"

#include <cmath>

// The routers' auxiliary losses: Switch balance (Fedus et al. 2021, in the form where a uniform router gives
// 1 for any top-k) and the router z-loss (Zoph et al. 2022). Only tokens whose target is not ignored count.
namespace sluice::cpu {
namespace {

float logSumExp(const float *row, int64_t n) {
  const float most = rowMax(row, n);
  return most + std::log(rowSumExp(row, n, 1.0f, most));
}

struct Balance {
  Tensor probs, targets;
  RoutingBuffer routing;
  bool normalize;
  int64_t ignored;

  bool counted(int64_t token) const { return targets.i32()[token] != ignored; }
  const float *row(int64_t token) const { return probs.f32() + token * routing.experts; }
  double rowMass(int64_t token) const {
    double mass = 0;
    for (int64_t expert = 0; expert < routing.experts; ++expert)
      mass += row(token)[expert];
    return mass;
  }
  /// sums[0] counts tokens, sums[1 .. E] assignments, sums[1 + E ..] probabilities.
  void add(int64_t token, double *sums) const {
    if (!counted(token))
      return;
    sums[0] += 1;
    for (int64_t j = 0; j < routing.topK; ++j)
      sums[1 + routing.ids[token * routing.topK + j]] += 1;
    const double factor = normalize ? 1.0 / rowMass(token) : 1.0;
    for (int64_t expert = 0; expert < routing.experts; ++expert)
      sums[1 + routing.experts + expert] += factor * row(token)[expert];
  }
};

Balance readBalance(Arguments &arguments) {
  Balance balance;
  balance.probs = arguments.input(0);
  const Tensor buffer = arguments.input(1, ElementType::I32);
  balance.targets = arguments.input(2, ElementType::I32);
  balance.routing = routingBuffer(arguments, buffer, balance.probs.rows(), balance.probs.dim(-1));
  balance.normalize = arguments.flag("normalize");
  balance.ignored = arguments.integer("ignore_index", INT32_MIN, INT32_MAX);
  arguments.elements(balance.targets, balance.probs.rows(), "targets");
  return balance;
}

} // namespace

StatusOr<PreparedKernel> prepareSwitchBalance(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Balance balance = readBalance(arguments);
  const Tensor loss = arguments.output(0);
  arguments.elements(loss, 1, "the loss");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t experts = balance.routing.experts, topK = balance.routing.topK;
  PreparedKernel kernel;
  sumOverTokens(
      kernel, balance.probs.rows(), 1 + 2 * experts,
      [=](int64_t token, double *sums) { balance.add(token, sums); },
      [=](const double *sums) {
        double value = 0;
        for (int64_t expert = 0; expert < experts; ++expert)
          value += sums[1 + expert] * sums[1 + experts + expert];
        const double n = sums[0];
        *loss.f32() = n > 0 ? static_cast<float>(static_cast<double>(experts) * value /
                                                 (n * n * static_cast<double>(topK)))
                            : 0.0f;
      });
  return kernel;
}

StatusOr<PreparedKernel> prepareSwitchBalanceGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(1);
  const Balance balance = readBalance(arguments);
  const Tensor g = arguments.input(3), dprobs = arguments.output(0);
  arguments.elements(g, 1, "g");
  arguments.elements(dprobs, balance.probs.elements, "dprobs");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t experts = balance.routing.experts, topK = balance.routing.topK;
  PreparedKernel kernel;
  // The totals stay at the start of the workspace for the stage below.
  sumOverTokens(
      kernel, balance.probs.rows(), 1 + 2 * experts,
      [=](int64_t token, double *sums) { balance.add(token, sums); }, [](const double *) {});
  kernel.stages.push_back({ceilDivide(balance.probs.rows(), 64), [=](const Tile &tile) {
                             const double *sums = reinterpret_cast<const double *>(tile.workspace);
                             // d loss / d P_i of one token, P the mean: E f_i / n with f_i = sums / (n K).
                             const double n = sums[0];
                             const double factor = n > 0 ? *g.f32() * static_cast<double>(experts) /
                                                               (n * n * static_cast<double>(topK))
                                                         : 0.0;
                             const int64_t end = std::min(balance.probs.rows(), (tile.index + 1) * 64);
                             for (int64_t token = tile.index * 64; token < end; ++token) {
                               float *dp = dprobs.f32() + token * experts;
                               if (!balance.counted(token)) {
                                 std::fill_n(dp, experts, 0.0f);
                                 continue;
                               }
                               double mass = 1, inner = 0;
                               if (balance.normalize) {
                                 mass = balance.rowMass(token);
                                 for (int64_t expert = 0; expert < experts; ++expert)
                                   inner += sums[1 + expert] * balance.row(token)[expert] / mass;
                               }
                               for (int64_t expert = 0; expert < experts; ++expert)
                                 dp[expert] = static_cast<float>(factor * (sums[1 + expert] - inner) / mass);
                             }
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareRouterZ(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), targets = arguments.input(1, ElementType::I32),
               loss = arguments.output(0);
  const int64_t ignored = arguments.integer("ignore_index", INT32_MIN, INT32_MAX);
  const int64_t tokens = logits.rows(), experts = logits.dim(-1);
  arguments.elements(targets, tokens, "targets");
  arguments.elements(loss, 1, "the loss");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  sumOverTokens(
      kernel, tokens, 2,
      [=](int64_t token, double *sums) {
        if (targets.i32()[token] == ignored)
          return;
        const double z = logSumExp(logits.f32() + token * experts, experts);
        sums[0] += 1;
        sums[1] += z * z;
      },
      [=](const double *sums) { *loss.f32() = sums[0] > 0 ? static_cast<float>(sums[1] / sums[0]) : 0.0f; });
  return kernel;
}

StatusOr<PreparedKernel> prepareRouterZGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), targets = arguments.input(1, ElementType::I32),
               g = arguments.input(2);
  const Tensor dlogits = arguments.output(0);
  const int64_t ignored = arguments.integer("ignore_index", INT32_MIN, INT32_MAX);
  const int64_t tokens = logits.rows(), experts = logits.dim(-1);
  arguments.elements(targets, tokens, "targets");
  arguments.elements(g, 1, "g");
  arguments.elements(dlogits, logits.elements, "dlogits");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  sumOverTokens(
      kernel, tokens, 1, [=](int64_t token, double *sums) { sums[0] += targets.i32()[token] != ignored; },
      [](const double *) {});
  kernel.stages.push_back({ceilDivide(tokens, 64), [=](const Tile &tile) {
                             const double n = *reinterpret_cast<const double *>(tile.workspace);
                             const int64_t end = std::min(tokens, (tile.index + 1) * 64);
                             for (int64_t token = tile.index * 64; token < end; ++token) {
                               const float *row = logits.f32() + token * experts;
                               float *dx = dlogits.f32() + token * experts;
                               if (targets.i32()[token] == ignored) {
                                 std::fill_n(dx, experts, 0.0f);
                                 continue;
                               }
                               const float z = logSumExp(row, experts);
                               rowScaledExp(row, experts, z, static_cast<float>(*g.f32() * 2.0 * z / n), dx);
                             }
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareRoutingStatistics(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), probs = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor targets = arguments.input(3, ElementType::I32), statistics = arguments.output(0);
  const int64_t ignored = arguments.integer("ignore_index", INT32_MIN, INT32_MAX);
  const int64_t tokens = logits.rows(), experts = logits.dim(-1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens, experts);
  arguments.elements(probs, logits.elements, "probs");
  arguments.elements(targets, tokens, "targets");
  arguments.elements(statistics, experts + 4, "the statistics");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  sumOverTokens(
      kernel, tokens, experts + 4,
      [=](int64_t token, double *sums) {
        if (targets.i32()[token] == ignored)
          return;
        for (int64_t j = 0; j < routing.topK; ++j)
          sums[routing.ids[token * routing.topK + j]] += 1;
        const float *p = probs.f32() + token * experts;
        double mass = 0, entropy = 0;
        for (int64_t expert = 0; expert < experts; ++expert)
          mass += p[expert];
        for (int64_t expert = 0; expert < experts; ++expert)
          if (p[expert] > 0)
            entropy -= p[expert] / mass * std::log(p[expert] / mass);
        sums[experts] += entropy;
        sums[experts + 1] += logSumExp(logits.f32() + token * experts, experts);
        sums[experts + 2] += rowMax(p, experts);
        sums[experts + 3] += 1;
      },
      [=](const double *sums) {
        for (int64_t i = 0; i < experts + 4; ++i)
          statistics.f32()[i] = static_cast<float>(sums[i]);
      });
  return kernel;
}

} // namespace sluice::cpu
