// global_norm and adamw against the published formulas in float64.
#include "tests/runtime/device/CommandRunner.h"

#include <limits>

namespace sluice::test {
namespace {

TEST(Optimizer, GlobalNormOfSeveralGradients) {
  const int64_t many = takesLargeShapes ? 100003 : 9001; // more than one piece of the device's sum
  const Floats a = randomFloats(many, 1), b = randomFloats(1, 2), c;
  CommandRunner runner;
  const Operand pa = runner.floats({many}, a), pb = runner.floats({1, 1}, b), pc = runner.floats({0, 4}, c);
  const Operand norm = runner.output({1}), none = runner.output({1});
  runner.add("global_norm", {pa, pb, pc}, {norm});
  runner.add("global_norm", {}, {none});
  runner.run();
  double sum = static_cast<double>(b[0]) * b[0];
  for (float x : a)
    sum += static_cast<double>(x) * x;
  EXPECT_CLOSE(runner.read(norm), Doubles{std::sqrt(sum)});
  EXPECT_EQ(runner.read(none), Floats{0});
}

struct AdamCase {
  int64_t n;
  double clip, norm, decay;
  int64_t step;
  bool floatStep;
};

TEST(Optimizer, AdamWAsPyTorchComputesIt) {
  const float rate = 1e-2f;
  const double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, tokens = 63;
  for (const AdamCase &c : casesFor<AdamCase>(
           {{1, 0, 5, 0.1, 1, false}, {13, 1.0, 600, 0.1, 7, true}, {3001, 1.0, 20, 0.0, 3, false}},
           {{70001, 1.0, 20, 0.0, 3, true}})) {
    const Floats w = randomFloats(c.n, 1), m = randomFloats(c.n, 2), g = randomFloats(c.n, 4, 30);
    Floats v = randomFloats(c.n, 3);
    for (float &x : v)
      x *= x;
    CommandRunner runner;
    const Operand pw = runner.floats({c.n}, w), pm = runner.floats({c.n}, m), pv = runner.floats({c.n}, v),
                  pg = runner.floats({c.n}, g);
    const Operand lr = runner.floats({1}, {rate}),
                  step = c.floatStep ? runner.floats({1}, {static_cast<float>(c.step)})
                                     : runner.longs({1}, {c.step});
    const Operand count = runner.floats({1}, {static_cast<float>(tokens)}),
                  norm = runner.floats({1}, {static_cast<float>(c.norm)});
    runner.add("adamw", {pw, pm, pv, pg, lr, step, count, norm}, {pw, pm, pv, pg},
               {real("beta1", beta1), real("beta2", beta2), real("epsilon", epsilon),
                real("weight_decay", c.decay), real("clip", c.clip)});
    runner.run();
    Doubles ww(c.n), wm(c.n), wv(c.n);
    for (int64_t i = 0; i < c.n; ++i) {
      double x = g[i] / tokens;
      if (c.clip > 0 && c.norm / tokens > c.clip)
        x *= c.clip / (c.norm / tokens + 1e-6);
      wm[i] = beta1 * m[i] + (1 - beta1) * x;
      wv[i] = beta2 * v[i] + (1 - beta2) * x * x;
      ww[i] = w[i] - rate * c.decay * w[i];
      ww[i] -= rate * (wm[i] / (1 - std::pow(beta1, c.step))) /
               (std::sqrt(wv[i] / (1 - std::pow(beta2, c.step))) + epsilon);
    }
    EXPECT_CLOSE(runner.read(pw), ww);
    EXPECT_CLOSE(runner.read(pm), wm);
    EXPECT_CLOSE(runner.read(pv), wv);
    EXPECT_EQ(runner.read(pg), Floats(c.n));
  }
}

/// More tensors than one launch of a device may take, of different sizes and decays, some of them empty.
TEST(Optimizer, ManyTensorsOfOneStep) {
  const double rate = 1e-2, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  CommandRunner runner;
  const Operand lr = runner.floats({1}, {static_cast<float>(rate)}), step = runner.longs({1}, {2}),
                tokens = runner.floats({1}, {1}), norm = runner.output({1});
  std::vector<Operand> gradients;
  std::vector<Doubles> wanted;
  double squares = 0;
  struct Tensors {
    Operand w, m, v, g;
    double decay;
  };
  std::vector<Tensors> updates;
  for (int i = 0; i < 150; ++i) {
    const int64_t n = i == 0 || i % 7 == 3 ? 0 : i == 20 ? 9001 : 1 + 13 * i;
    const double decay = i % 3 == 0 ? 0.0 : 0.1;
    const Floats w = randomFloats(n, 4 * i), m = randomFloats(n, 4 * i + 1), g = randomFloats(n, 4 * i + 3);
    Floats v = randomFloats(n, 4 * i + 2);
    Doubles want(static_cast<size_t>(n));
    for (size_t j = 0; j < want.size(); ++j) {
      v[j] *= v[j];
      squares += static_cast<double>(g[j]) * g[j];
      const double newM = beta1 * m[j] + (1 - beta1) * g[j], newV = beta2 * v[j] + (1 - beta2) * g[j] * g[j];
      want[j] = w[j] * (1 - rate * decay) -
                rate * (newM / (1 - beta1 * beta1)) / (std::sqrt(newV / (1 - beta2 * beta2)) + epsilon);
    }
    updates.push_back(
        {runner.floats({n}, w), runner.floats({n}, m), runner.floats({n}, v), runner.floats({n}, g), decay});
    gradients.push_back(updates.back().g);
    wanted.push_back(want);
  }
  runner.add("global_norm", gradients, {norm});
  for (const Tensors &u : updates)
    runner.add("adamw", {u.w, u.m, u.v, u.g, lr, step, tokens, norm}, {u.w, u.m, u.v, u.g},
               {real("beta1", beta1), real("beta2", beta2), real("epsilon", epsilon),
                real("weight_decay", u.decay), real("clip", 0)});
  runner.run();
  EXPECT_CLOSE(runner.read(norm), Doubles{std::sqrt(squares)});
  for (size_t i = 0; i < updates.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_CLOSE(runner.read(updates[i].w), wanted[i]);
    EXPECT_EQ(runner.read(updates[i].g), Floats(wanted[i].size()));
  }
}

TEST(Optimizer, ANormThatIsNotFiniteChangesNothingAndLeavesAGradientThatStopsTheNextStep) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float badNorm : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
    const Floats w = randomFloats(37, 1), g(37, infinity);
    CommandRunner runner;
    const Operand pw = runner.floats({37}, w), pm = runner.floats({37}, w), pv = runner.floats({37}, w),
                  pg = runner.floats({37}, g);
    const Operand one = runner.floats({1}, {1}), norm = runner.floats({1}, {badNorm});
    const std::vector<CommandAttribute> settings = {real("beta1", 0.9), real("beta2", 0.95),
                                                    real("epsilon", 1e-8), real("weight_decay", 0.1),
                                                    real("clip", 1.0)};
    runner.add("adamw", {pw, pm, pv, pg, one, one, one, norm}, {pw, pm, pv, pg}, settings);
    // The next step adds to the gradient, asks for its norm and updates.
    const Operand next = runner.output({1});
    runner.add("global_norm", {pg}, {next});
    runner.add("adamw", {pw, pm, pv, pg, one, one, one, next}, {pw, pm, pv, pg}, settings);
    runner.run();
    EXPECT_TRUE(std::isnan(runner.read(next)[0]));
    EXPECT_EQ(runner.read(pw), w);
    EXPECT_EQ(runner.read(pm), w);
    EXPECT_EQ(runner.read(pv), w);
    for (float gradient : runner.read(pg))
      EXPECT_TRUE(std::isnan(gradient));
  }
}

} // namespace
} // namespace sluice::test
