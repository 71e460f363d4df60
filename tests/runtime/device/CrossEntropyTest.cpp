// The cross-entropy kinds against float64 formulas.
#include "tests/runtime/device/CommandRunner.h"

#include <limits>

namespace sluice::test {
namespace {

struct HeadCase {
  int64_t tokens, width, vocabulary;
  bool accumulate;
  double deviation;
};

TEST(CrossEntropy, OfAProductAndOfLogits) {
  for (const HeadCase &c : casesFor<HeadCase>(
           {{1, 1, 1, false, 1}, {3, 5, 7, true, 1}, {5, 17, 397, false, 30}, {301, 3, 67, true, 3}},
           {{67, 31, 997, false, 1}, {601, 24, 131, true, 3}, {300, 8, 1100, false, 30}})) {
    SCOPED_TRACE(testing::Message() << c.tokens << " " << c.width << " " << c.vocabulary);
    const Floats x = randomFloats(c.tokens * c.width, 1),
                 w = randomFloats(c.vocabulary * c.width, 2, c.deviation / std::sqrt(c.width));
    const Floats old = randomFloats(c.vocabulary * c.width, 3);
    std::vector<int32_t> targets(c.tokens);
    for (int64_t t = 0; t < c.tokens; ++t)
      targets[t] = t % 4 == 2 ? -100 : static_cast<int32_t>(t * 7 % c.vocabulary);
    const float g = 0.5f;
    // The reference, in float64; logits rounded once so that both entry points can share it.
    Doubles logits(c.tokens * c.vocabulary), dlogits(logits.size()), dx(x.size()), dw(w.size());
    if (c.accumulate)
      dw.assign(old.begin(), old.end());
    double loss = 0;
    for (int64_t t = 0; t < c.tokens; ++t) {
      double mass = 0, most = -1e300;
      double *row = &logits[t * c.vocabulary];
      for (int64_t v = 0; v < c.vocabulary; ++v) {
        for (int64_t i = 0; i < c.width; ++i)
          row[v] += static_cast<double>(x[t * c.width + i]) * w[v * c.width + i];
        most = std::max(most, row[v]);
      }
      if (targets[t] < 0)
        continue;
      for (int64_t v = 0; v < c.vocabulary; ++v)
        mass += std::exp(row[v] - most);
      loss += most + std::log(mass) - row[targets[t]];
      for (int64_t v = 0; v < c.vocabulary; ++v) {
        const double dl = g * (std::exp(row[v] - most) / mass - (v == targets[t]));
        dlogits[t * c.vocabulary + v] = dl;
        for (int64_t i = 0; i < c.width; ++i) {
          dx[t * c.width + i] += dl * w[v * c.width + i];
          dw[v * c.width + i] += dl * x[t * c.width + i];
        }
      }
    }
    CommandRunner runner;
    const Operand px = runner.floats({c.tokens, c.width}, x), pw = runner.floats({c.vocabulary, c.width}, w);
    const Operand pt = runner.integers({c.tokens}, targets), pg = runner.floats({1}, {g});
    const Operand forward = runner.output({1}), pl = runner.output({1}),
                  pdx = runner.output({c.tokens, c.width});
    const Operand pdw =
        c.accumulate ? runner.floats({c.vocabulary, c.width}, old) : runner.output({c.vocabulary, c.width});
    const Operand plogits = runner.floats({c.tokens, c.vocabulary}, Floats(logits.begin(), logits.end()));
    const Operand small = runner.output({1}), smallGradient = runner.output({c.tokens, c.vocabulary});
    const std::vector<CommandAttribute> settings = {flag("ignore_index", -100),
                                                    flag("accumulate", c.accumulate)};
    runner.add("linear_cross_entropy", {px, pw, pt}, {forward}, settings);
    runner.add("linear_cross_entropy_gradient", {px, pw, pt, pg}, {pl, pdx, pdw}, settings);
    runner.add("cross_entropy", {plogits, pt}, {small}, settings);
    runner.add("cross_entropy_gradient", {plogits, pt, pg}, {smallGradient}, settings);
    runner.run();
    EXPECT_CLOSE(runner.read(forward), Doubles{loss});
    EXPECT_CLOSE(runner.read(pl), Doubles{loss});
    EXPECT_CLOSE(runner.read(small), Doubles{loss});
    EXPECT_CLOSE(runner.read(pdx), dx);
    EXPECT_CLOSE(runner.read(pdw), dw);
    EXPECT_CLOSE(runner.read(smallGradient), dlogits);
  }
}

TEST(CrossEntropy, ALossThatIsNotFiniteHasAGradientThatStopsTheUpdate) {
  const float infinity = std::numeric_limits<float>::infinity();
  // The first target has no probability at all: softmax is finite, the loss is not.
  const Floats logits = {-infinity, 1, 2, 3, 4, 5, infinity, 1, 0};
  CommandRunner runner;
  const Operand pl = runner.floats({3, 3}, logits), pt = runner.integers({3}, {0, 0, 1}),
                pg = runner.floats({1}, {1}), gradient = runner.output({3, 3});
  runner.add("cross_entropy_gradient", {pl, pt, pg}, {gradient}, {flag("ignore_index", -100)});
  // The same through the head's product: x is one number, w the logits.
  const Operand px = runner.floats({1, 1}, {1}), pw = runner.floats({3, 1}, {-infinity, 1, 2}),
                first = runner.integers({1}, {0}), loss = runner.output({1}), dx = runner.output({1, 1}),
                dw = runner.output({3, 1});
  runner.add("linear_cross_entropy_gradient", {px, pw, first, pg}, {loss, dx, dw},
             {flag("ignore_index", -100), flag("accumulate", 0)});
  runner.run();
  const Floats found = runner.read(gradient);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(std::isnan(found[i]), i / 3 != 1) << i;
  EXPECT_EQ(runner.read(loss)[0], infinity);
  for (float value : runner.read(dw))
    EXPECT_TRUE(std::isnan(value));
}

TEST(CrossEntropy, ATargetOutsideTheVocabularyIsRefused) {
  CommandRunner runner;
  const Operand logits = runner.floats({2, 3}, Floats(6)), targets = runner.integers({2}, {1, 3});
  runner.add("cross_entropy", {logits, targets}, {runner.output({1})}, {flag("ignore_index", -100)});
  Status status = runner.runWith(1);
  EXPECT_EQ(exitCode(status), ExitCode::BadInput);
  EXPECT_NE(std::string(status.message()).find("outside its table"), std::string::npos) << status;
}

} // namespace
} // namespace sluice::test
