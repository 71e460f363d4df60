// route, its losses and their adjoints: ids exact, floats against float64 formulas and central differences.
#include "tests/runtime/device/RoutingReference.h"

#include <functional>
#include <limits>

namespace sluice::test {
namespace {

struct Score {
  bool sigmoid, renormalize;
  double epsilon, scale;
};

std::vector<CommandAttribute> attributes(int64_t topK, const Score &s) {
  return {flag("top_k", topK), flag("score", s.sigmoid), flag("renormalize", s.renormalize),
          real("epsilon", s.epsilon), real("scale", s.scale)};
}

Doubles scores(const Doubles &logits, int64_t experts, bool sigmoid) {
  Doubles p(logits.size());
  for (size_t at = 0; at < logits.size(); at += experts) {
    double mass = 0;
    for (int64_t e = 0; e < experts; ++e)
      mass += p[at + e] = sigmoid ? 1 / (1 + std::exp(-logits[at + e])) : std::exp(logits[at + e]);
    for (int64_t e = 0; e < experts && !sigmoid; ++e)
      p[at + e] /= mass;
  }
  return p;
}

Doubles gatesOf(const Doubles &p, const RoutingReference &r, const Score &s) {
  Doubles gates(static_cast<size_t>(r.rows()));
  for (int64_t t = 0; t < r.tokens; ++t) {
    double sum = s.epsilon;
    for (int64_t j = 0; j < r.topK; ++j)
      sum += p[t * r.experts + r.expertOf(t * r.topK + j)];
    for (int64_t j = 0; j < r.topK; ++j)
      gates[t * r.topK + j] =
          s.scale * p[t * r.experts + r.expertOf(t * r.topK + j)] / (s.renormalize ? sum : 1.0);
  }
  return gates;
}

/// Central differences of a float64 function at `x`.
Doubles differences(const Floats &x, const std::function<double(const Doubles &)> &f) {
  Doubles at(x.begin(), x.end()), gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double keep = at[i], h = 1e-5;
    at[i] = keep + h;
    const double up = f(at);
    at[i] = keep - h;
    gradient[i] = (up - f(at)) / (2 * h);
    at[i] = keep;
  }
  return gradient;
}

TEST(Route, IdsGatesProbsAndTheirAdjoint) {
  for (const Score &s : {Score{false, true, 0, 1}, Score{false, false, 0, 1}, Score{true, true, 1e-3, 2.5},
                         Score{true, false, 0, 1}})
    for (auto [tokens, experts, topK] :
         {std::array<int64_t, 3>{1, 1, 1}, {67, 7, 3}, {131, 16, 4}, {5, 4, 4}}) {
      const Floats logits = randomFloats(tokens * experts, 1, 2.0), dgates = randomFloats(tokens * topK, 2);
      const Floats dprobs = randomFloats(tokens * experts, 3);
      const RoutingReference want = routingFromLogits(logits, topK, experts);
      CommandRunner runner;
      const Operand x = runner.floats({tokens, experts}, logits),
                    buffer = runner.output(want.shape(), ElementType::I32);
      const Operand gates = runner.output({tokens, topK}), probs = runner.output({tokens, experts});
      const Operand dg = runner.floats({tokens, topK}, dgates), dp = runner.floats({tokens, experts}, dprobs);
      const Operand dx = runner.output({tokens, experts});
      runner.add("route", {x}, {buffer, gates, probs}, attributes(topK, s));
      runner.add("route_gradient", {probs, gates, buffer, dg, dp}, {dx}, attributes(topK, s));
      runner.run();
      EXPECT_EQ(runner.readIntegers(buffer), want.buffer);
      const Doubles p = scores(Doubles(logits.begin(), logits.end()), experts, s.sigmoid);
      EXPECT_CLOSE(runner.read(probs), p);
      EXPECT_CLOSE(runner.read(gates), gatesOf(p, want, s));
      const Doubles gradient = differences(logits, [&](const Doubles &at) {
        const Doubles q = scores(at, experts, s.sigmoid), g = gatesOf(q, want, s);
        double sum = 0;
        for (size_t i = 0; i < g.size(); ++i)
          sum += g[i] * dgates[i];
        for (size_t i = 0; i < q.size(); ++i)
          sum += q[i] * dprobs[i];
        return sum;
      });
      if (experts > 1) {
        EXPECT_CLOSE(runner.read(dx), gradient);
      }
    }
}

/// Ids by the rules of docs/commands.md: keys p + bias, groups by their best key or their two best.
std::vector<int32_t> chosen(const Doubles &p, const Floats &bias, int64_t topK, int64_t groups, int64_t kept,
                            bool sumOfBestTwo) {
  const auto experts = static_cast<int64_t>(bias.size()), size = experts / groups;
  std::vector<int32_t> ids;
  for (size_t at = 0; at < p.size(); at += bias.size()) {
    std::vector<std::pair<double, int64_t>> keys, scores; // negated, so that sorting puts the best first
    for (int64_t e = 0; e < experts; ++e)
      keys.push_back({-(p[at + e] + bias[e]), e});
    for (int64_t group = 0; group < groups; ++group) {
      std::vector<std::pair<double, int64_t>> own(keys.begin() + group * size,
                                                  keys.begin() + (group + 1) * size);
      std::sort(own.begin(), own.end());
      scores.push_back({own[0].first + (sumOfBestTwo ? own[1].first : 0.0), group});
    }
    std::sort(scores.begin(), scores.end());
    for (int64_t i = kept; i < groups; ++i)
      for (int64_t e = 0; e < size; ++e)
        keys[scores[i].second * size + e].first = std::numeric_limits<double>::infinity();
    std::sort(keys.begin(), keys.end());
    for (int64_t j = 0; j < topK; ++j)
      ids.push_back(static_cast<int32_t>(keys[j].second));
  }
  return ids;
}

TEST(Route, ASelectionBiasAndGroups) {
  for (bool sigmoid : {false, true})
    for (bool sumOfBestTwo : {false, true})
      for (auto [groups, kept] : {std::pair<int64_t, int64_t>{1, 1}, {4, 2}, {3, 3}, {6, 2}}) {
        const int64_t tokens = 131, experts = 12, topK = 3;
        const Floats logits = randomFloats(tokens * experts, 1, 2.0), bias = randomFloats(experts, 2, 0.3);
        const Doubles p = scores(Doubles(logits.begin(), logits.end()), experts, sigmoid);
        const RoutingReference want =
            routingFromIds(chosen(p, bias, topK, groups, kept, sumOfBestTwo), topK, experts);
        const Score rule{sigmoid, true, 1e-20, 2.5};
        std::vector<CommandAttribute> settings = attributes(topK, rule);
        settings.push_back(flag("groups", groups));
        settings.push_back(flag("groups_kept", kept));
        settings.push_back(flag("group_score", sumOfBestTwo));
        CommandRunner runner;
        const Operand x = runner.floats({tokens, experts}, logits), b = runner.floats({experts}, bias);
        const Operand buffer = runner.output(want.shape(), ElementType::I32),
                      gates = runner.output({tokens, topK}), probs = runner.output({tokens, experts});
        runner.add("route", {x, b}, {buffer, gates, probs}, settings);
        runner.run();
        EXPECT_EQ(runner.readIntegers(buffer), want.buffer) << groups << " groups";
        EXPECT_CLOSE(runner.read(gates), gatesOf(p, want, rule));
      }
}

TEST(Route, TiesGoToTheLowerIndexAndNaNComesLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const Floats logits = {1,   1,   1,         1,   nan,  2,     nan, 3,        nan, nan,
                         nan, nan, -infinity, nan, 0.0f, -0.0f, 5,   infinity, 5,   4};
  const RoutingReference want = routingFromLogits(logits, 3, 4);
  CommandRunner runner;
  const Operand x = runner.floats({5, 4}, logits), buffer = runner.output(want.shape(), ElementType::I32);
  runner.add("route", {x}, {buffer, runner.output({5, 3}), runner.output({5, 4})},
             attributes(3, {false, true, 0, 1}));
  runner.run();
  const std::vector<int32_t> got = runner.readIntegers(buffer);
  EXPECT_EQ(got, want.buffer);
  EXPECT_EQ(std::vector<int32_t>(got.begin(), got.begin() + 15),
            (std::vector<int32_t>{0, 1, 2, 3, 1, 0, 0, 1, 2, 2, 3, 0, 1, 0, 2}));
}

/// logits, targets with ignored ones, and a routing.
struct LossCase {
  int64_t tokens, experts, topK;
  bool normalize, allIgnored;
};

TEST(RoutingLosses, ValuesAndAdjoints) {
  for (const LossCase &c : {LossCase{67, 7, 2, false, false},
                            {67, 7, 2, true, false},
                            {300, 5, 1, true, false},
                            {4, 3, 3, false, true}}) {
    const Floats logits = randomFloats(c.tokens * c.experts, 1);
    Floats probs = randomFloats(c.tokens * c.experts, 2);
    for (float &p : probs)
      p = std::fabs(p) + 0.01f;
    const RoutingReference r = routingFromLogits(logits, c.topK, c.experts);
    std::vector<int32_t> targets(c.tokens);
    double n = 0;
    for (int64_t t = 0; t < c.tokens; ++t) {
      targets[t] = c.allIgnored || t % 5 == 3 ? -100 : 1;
      n += targets[t] >= 0;
    }
    const float g = 0.7f;
    Doubles f(c.experts);
    for (int64_t slot = 0; slot < r.rows(); ++slot)
      f[r.expertOf(slot)] += targets[slot / c.topK] >= 0;
    auto balance = [&](const Doubles &p) {
      double value = 0;
      for (int64_t t = 0; t < c.tokens && n > 0; ++t) {
        double mass = 0;
        for (int64_t e = 0; e < c.experts; ++e)
          mass += p[t * c.experts + e];
        for (int64_t e = 0; e < c.experts; ++e)
          if (targets[t] >= 0)
            value += c.experts * f[e] / (n * c.topK) * p[t * c.experts + e] / (c.normalize ? mass : 1.0) / n;
      }
      return value;
    };
    auto logSum = [&](const Doubles &x, int64_t t) {
      double mass = 0;
      for (int64_t e = 0; e < c.experts; ++e)
        mass += std::exp(x[t * c.experts + e]);
      return std::log(mass);
    };
    auto z = [&](const Doubles &x) {
      double value = 0;
      for (int64_t t = 0; t < c.tokens && n > 0; ++t)
        value += targets[t] >= 0 ? logSum(x, t) * logSum(x, t) / n : 0.0;
      return value;
    };

    CommandRunner runner;
    const Shape shape{c.tokens, c.experts};
    const Operand px = runner.floats(shape, logits), pp = runner.floats(shape, probs),
                  pr = runner.integers(r.shape(), r.buffer);
    const Operand pt = runner.integers({c.tokens}, targets), pg = runner.floats({1}, {g});
    const Operand b = runner.output({1}), db = runner.output(shape), pz = runner.output({1}),
                  dz = runner.output(shape);
    const Operand statistics = runner.output({c.experts + 4}), counted = runner.output({1});
    const std::vector<CommandAttribute> settings = {flag("top_k", c.topK), flag("normalize", c.normalize),
                                                    flag("ignore_index", -100)};
    runner.add("switch_balance", {pp, pr, pt}, {b}, settings);
    runner.add("switch_balance_gradient", {pp, pr, pt, pg}, {db}, settings);
    runner.add("router_z", {px, pt}, {pz}, settings);
    runner.add("router_z_gradient", {px, pt, pg}, {dz}, settings);
    runner.add("routing_statistics", {px, pp, pr, pt}, {statistics}, settings);
    runner.add("count_targets", {pt}, {counted}, settings);
    runner.run();
    const Doubles p(probs.begin(), probs.end()), x(logits.begin(), logits.end());
    EXPECT_CLOSE(runner.read(b), Doubles{balance(p)});
    EXPECT_CLOSE(runner.read(pz), Doubles{z(x)});
    EXPECT_CLOSE(runner.read(db), differences(probs, [&](const Doubles &at) { return g * balance(at); }));
    EXPECT_CLOSE(runner.read(dz), differences(logits, [&](const Doubles &at) { return g * z(at); }));
    EXPECT_EQ(runner.read(counted), Floats{static_cast<float>(n)});
    Doubles want = f;
    double entropy = 0, mean = 0, largest = 0;
    for (int64_t t = 0; t < c.tokens; ++t) {
      if (targets[t] < 0)
        continue;
      double mass = 0, most = 0;
      for (int64_t e = 0; e < c.experts; ++e)
        mass += p[t * c.experts + e];
      for (int64_t e = 0; e < c.experts; ++e) {
        const double q = p[t * c.experts + e] / mass;
        entropy -= q * std::log(q);
        most = std::max(most, p[t * c.experts + e]);
      }
      mean += logSum(x, t);
      largest += most;
    }
    want.insert(want.end(), {entropy, mean, largest, n});
    EXPECT_CLOSE(runner.read(statistics), want);
  }
}

} // namespace
} // namespace sluice::test
