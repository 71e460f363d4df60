// attention beyond the plain form: counts against scalar loops, meaning against the formula.
#include "tests/dialects/TestGraph.h"

#include <cmath>
#include <gtest/gtest.h>

namespace sluice::test {
namespace {

/// One attention op over [2, seq, ...] with 4 query heads of width 2 and 2 key/value heads with values of
/// width 3.
std::string attentionGraph(int64_t seq, const std::string &properties, bool sinks) {
  auto type = [&](int64_t width) {
    return "tensor<2x" + std::to_string(seq) + "x" + std::to_string(width) + "xf32>";
  };
  const std::string sinkType = sinks ? ", tensor<4xf32>" : "";
  return "sluice.graph @g(%q: " + type(8) + ", %k: " + type(4) + ", %v: " + type(6) +
         (sinks ? ", %s: tensor<4xf32>" : "") + ") {\n%y, %l = sluice.attention %q, %k, %v" +
         (sinks ? ", %s" : "") + " {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.7 : f64, causal = true" +
         properties + "} : (" + type(8) + ", " + type(4) + ", " + type(6) + sinkType + ") -> (" + type(12) +
         ", tensor<2x4x" + std::to_string(seq) + "xf32>)\nsluice.return %y [\"y\"] : " + type(12) + "\n}\n";
}

OpCounts countOf(const std::string &text) {
  TestGraph graph(text);
  EXPECT_TRUE(graph.valid()) << graph.errors();
  return graph.valid() ? llvm::cast<Countable>(graph.ops().front()).count() : OpCounts();
}

TEST(AttentionAnswersTest, WindowedPairsAgainstALoop) {
  for (int64_t seq : {1, 4, 7})
    for (int64_t window : {1, 2, 3, 6, 7, 8, 100}) {
      Count pairs = 0;
      for (int64_t s = 0; s < seq; ++s)
        for (int64_t t = 0; t <= s; ++t)
          pairs += s - t < window;
      const OpCounts counts =
          countOf(attentionGraph(seq, ", window = " + std::to_string(window) + " : i64", false));
      const Count scores = 2 * 4 * pairs;
      EXPECT_EQ(toDecimal(counts.ideal.contraction), toDecimal(scores * 2 * (2 + 3))) << seq << " " << window;
      EXPECT_EQ(toDecimal(counts.dense.contraction), toDecimal(Count(2 * 4 * seq * seq * 2 * (2 + 3))));
      EXPECT_EQ(toDecimal(counts.ideal.divide), toDecimal(scores));
    }
}

TEST(AttentionAnswersTest, WhatCapSlopesAndSinksAdd) {
  const Count scores = 2 * 4 * 15, rows = 2 * 4 * 5;
  const ClassCounts plain = countOf(attentionGraph(5, "", false)).ideal;
  ClassCounts capped = plain; // division, tanh, product
  capped.divide += scores, capped.transcendental += scores, capped.multiply += scores;
  EXPECT_EQ(countOf(attentionGraph(5, ", softcap = 2.0 : f64", false)).ideal, capped);
  ClassCounts sloped = plain; // slope times distance, added
  sloped.multiply += scores, sloped.add += scores;
  EXPECT_EQ(countOf(attentionGraph(5, ", slopes = array<f64: 0.5, 0.25, 0.125, 0.0625>", false)).ideal,
            sloped);
  ClassCounts sunk = plain; // one more score a row: maximum, subtraction, exp, sum
  sunk.compare += rows, sunk.add += 2 * rows, sunk.transcendental += rows;
  EXPECT_EQ(countOf(attentionGraph(5, "", true)).ideal, sunk);
}

TEST(AttentionAnswersTest, MeaningAgainstTheFormula) {
  const int64_t seq = 5, window = 3;
  const double slopes[] = {0.5, 0.25, 0.125, 0.0625};
  TestGraph graph(attentionGraph(
      seq, ", window = 3 : i64, softcap = 0.8 : f64, slopes = array<f64: 0.5, 0.25, 0.125, 0.0625>", true));
  ASSERT_TRUE(graph.valid()) << graph.errors();
  std::vector<HostTensor> in = graph.draw(4);
  Values values = graph.evaluate(in);
  const HostTensor &y = values.find(graph.ops().front()->getResult(0))->second,
                   &lse = values.find(graph.ops().front()->getResult(1))->second;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t s = 0; s < seq; ++s) {
        // The table of scores by masks, as a reader of the definition would write it.
        double denominator = std::exp(in[3][h]), sums[3] = {};
        for (int64_t t = 0; t < seq; ++t) {
          if (t > s || t + window <= s)
            continue;
          double product = 0;
          for (int64_t d = 0; d < 2; ++d)
            product += in[0][(b * seq + s) * 8 + h * 2 + d] * in[1][(b * seq + t) * 4 + h / 2 * 2 + d];
          const double weight =
              std::exp(0.8 * std::tanh(0.7 * product / 0.8) - slopes[h] * static_cast<double>(s - t));
          denominator += weight;
          for (int64_t d = 0; d < 3; ++d)
            sums[d] += weight * in[2][(b * seq + t) * 6 + h / 2 * 3 + d];
        }
        EXPECT_NEAR(lse[(b * 4 + h) * seq + s], std::log(denominator), 1e-13);
        for (int64_t d = 0; d < 3; ++d)
          EXPECT_NEAR(y[(b * seq + s) * 12 + h * 3 + d], sums[d] / denominator, 1e-13);
      }
}

TEST(AttentionAnswersTest, CommandsNameOnlyWhatGoesBeyondPlainAttention) {
  auto names = [](const std::string &properties, bool sinks) {
    TestGraph graph(attentionGraph(5, properties, sinks));
    EXPECT_TRUE(graph.valid()) << graph.errors();
    mlir::NamedAttrList attributes;
    graph.only<AttentionOp>().commandAttributes(attributes);
    std::string list;
    for (const char *name : {"window", "softcap", "sinks", "slopes"})
      if (attributes.get(name))
        list += std::string(name) + " ";
    return list;
  };
  EXPECT_EQ(names("", false), "");
  EXPECT_EQ(names(", window = 5 : i64, softcap = 0.0 : f64", false),
            ""); // the window holds the whole sequence
  EXPECT_EQ(names(", window = 4 : i64, softcap = 2.0 : f64", true), "window softcap sinks ");
  EXPECT_EQ(names(", slopes = array<f64: 1.0, 1.0, 1.0, 1.0>", false), "slopes ");
}

TEST(LayerNormTest, ByHand) {
  // x = (1, 3): mean 2, variance 1, epsilon 3: reciprocal 1/2.
  TestGraph graph("sluice.graph @g(%x: tensor<1x2xf32>, %g: tensor<2xf32>, %b: tensor<2xf32>) {\n"
                  "%y, %r = sluice.layer_norm %x gain %g bias %b {epsilon = 3.0 : f64} : (tensor<1x2xf32>, "
                  "tensor<2xf32>, tensor<2xf32>) -> (tensor<1x2xf32>, tensor<1x1xf32>)\n"
                  "sluice.return %y [\"y\"] : tensor<1x2xf32>\n}");
  ASSERT_TRUE(graph.valid()) << graph.errors();
  HostTensor x({1, 2}), gain({2}), bias({2});
  x.values = {1, 3}, gain.values = {2, 4}, bias.values = {10, 20};
  Values values = graph.evaluate({x, gain, bias});
  EXPECT_EQ(values.find(graph.ops().front()->getResult(0))->second.values, (std::vector<double>{9, 22}));
  EXPECT_EQ(values.find(graph.ops().front()->getResult(1))->second.values, (std::vector<double>{0.5}));
}

} // namespace
} // namespace sluice::test
