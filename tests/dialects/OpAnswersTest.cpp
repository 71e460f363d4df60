// Counts against closed forms, meanings against formulas, decompositions against the ops they stand for.
#include "tests/dialects/TestGraph.h"

#include "dialects/sluice/Einsum.h"
#include "runtime/support/Philox.h"

#include <cmath>
#include <gtest/gtest.h>

namespace sluice::test {
namespace {

/// A graph of one op that returns all results; `op` is the line without results.
std::string single(const std::string &arguments, const std::string &results, const std::string &op) {
  llvm::StringRef types = llvm::StringRef(op).substr(op.rfind("-> ") + 3);
  types = types.take_front(types.find(" {")).trim("()");
  const size_t count = llvm::StringRef(results).count('%');
  std::string names = "\"0\"";
  for (size_t i = 1; i < count; ++i)
    names += ", \"" + std::to_string(i) + "\"";
  return "sluice.graph @g(" + arguments + ") {\n" + results + " = " + op + "\nsluice.return " + results +
         " [" + names + "] : " + types.str() + "\n}\n";
}

OpCounts countOf(TestGraph &graph) {
  EXPECT_TRUE(graph.valid()) << graph.errors();
  OpCounts total;
  if (graph.valid())
    for (mlir::Operation *op : graph.ops())
      total += llvm::cast<Countable>(op).count();
  return total;
}

OpCounts countOf(const std::string &text) {
  TestGraph graph(text);
  return countOf(graph);
}

/// Equality, with the classes printed on failure.
void expectCounts(const ClassCounts &found, const ClassCounts &expected) {
  auto text = [](const ClassCounts &c) {
    return "contraction " + toDecimal(c.contraction) + " add " + toDecimal(c.add) + " multiply " +
           toDecimal(c.multiply) + " divide " + toDecimal(c.divide) + " transcendental " +
           toDecimal(c.transcendental) + " compare " + toDecimal(c.compare) + " index " + toDecimal(c.index);
  };
  EXPECT_EQ(text(found), text(expected));
}

// ----- counts
// ----------------------------------------------------------------------------------------------------

/// The attention layer of the tiny graphs: d = 8, H = 4, KV = 2, hd = 2, T = 5, B = 2.
std::string tinyAttention(bool causal) {
  return std::string(R"(sluice.graph @g(%x: tensor<2x5x8xf32>, %wq: tensor<8x8xf32>, %wk: tensor<4x8xf32>) {
    %q = sluice.linear %x, %wq : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
    %k = sluice.linear %x, %wk : (tensor<2x5x8xf32>, tensor<4x8xf32>) -> tensor<2x5x4xf32>
    %v = sluice.linear %x, %wk : (tensor<2x5x8xf32>, tensor<4x8xf32>) -> tensor<2x5x4xf32>
    %a, %l = sluice.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, scale = 1.0 : f64, causal = )") +
         (causal ? "true" : "false") +
         R"(} : (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> (tensor<2x5x8xf32>, tensor<2x4x5xf32>)
    %o = sluice.linear %a, %wq : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
    sluice.return %o ["o"] : tensor<2x5x8xf32> })";
}

/// Its gated MLP (f = 12) and its head (V = 11).
const char *tinyMlp =
    R"(sluice.graph @g(%x: tensor<2x5x8xf32>, %w1: tensor<12x8xf32>, %w2: tensor<8x12xf32>) {
    %g = sluice.linear %x, %w1 : (tensor<2x5x8xf32>, tensor<12x8xf32>) -> tensor<2x5x12xf32>
    %u = sluice.linear %x, %w1 : (tensor<2x5x8xf32>, tensor<12x8xf32>) -> tensor<2x5x12xf32>
    %h = sluice.swiglu %g, %u : (tensor<2x5x12xf32>, tensor<2x5x12xf32>) -> tensor<2x5x12xf32>
    %y = sluice.linear %h, %w2 : (tensor<2x5x12xf32>, tensor<8x12xf32>) -> tensor<2x5x8xf32>
    sluice.return %y ["y"] : tensor<2x5x8xf32> })";
const char *tinyHead = R"(sluice.graph @g(%x: tensor<2x5x8xf32>, %w: tensor<11x8xf32>) {
    %y = sluice.linear %x, %w : (tensor<2x5x8xf32>, tensor<11x8xf32>) -> tensor<2x5x11xf32>
    sluice.return %y ["y"] : tensor<2x5x11xf32> })";

TEST(CountTest, TinyDecoderOfTheReference) {
  // Two layers and the head; 24,160 with full attention and 22,880 causal were counted by scalar loops.
  const Count mlp = countOf(tinyMlp).ideal.contraction, head = countOf(tinyHead).ideal.contraction;
  EXPECT_EQ(toDecimal(2 * countOf(tinyAttention(false)).ideal.contraction + 2 * mlp + head), "24160");
  const OpCounts causal = countOf(tinyAttention(true));
  EXPECT_EQ(toDecimal(2 * causal.ideal.contraction + 2 * mlp + head), "22880");
  EXPECT_EQ(toDecimal(2 * causal.dense.contraction + 2 * mlp + head), "24160");
}

TEST(CountTest, Attention) {
  // Scalar loops over one head of T = 5 in batch 2: pairs, and the classes of softmax.
  OpCounts counts = countOf(R"(sluice.graph @g(%q: tensor<2x5x3xf32>) {
    %a, %l = sluice.attention %q, %q, %q {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f64, causal = true} : (tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> (tensor<2x5x3xf32>, tensor<2x1x5xf32>)
    sluice.return %a ["a"] : tensor<2x5x3xf32> })");
  ClassCounts ideal;
  for (int batch = 0; batch < 2; ++batch) {
    for (int s = 0; s < 5; ++s) {
      for (int t = 0; t <= s; ++t) {
        ideal.contraction += 2 * 3 + 2 * 3;                                               // q k, p v
        ideal.multiply += 1;                                                              // scale
        ideal.compare += 1, ideal.add += 2, ideal.transcendental += 1, ideal.divide += 1; // softmax
      }
      ideal.add += 1, ideal.transcendental += 1; // logsumexp
    }
  }
  expectCounts(counts.ideal, ideal);
  EXPECT_EQ(counts.dense.contraction, Count(2 * 5 * 5 * 12));
  expectCounts(counts.recompute, {});
}

TEST(CountTest, AttentionGradient) {
  OpCounts counts = countOf(R"(sluice.graph @g(%q: tensor<2x5x3xf32>, %l: tensor<2x1x5xf32>) {
    %a, %b, %c = sluice.attention_gradient %q, %q, %q, %q, %l, %q {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f64, causal = true} : (tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x1x5xf32>, tensor<2x5x3xf32>) -> (tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>)
    sluice.return %a ["a"] : tensor<2x5x3xf32> })");
  const Count pairs = 2 * 15;
  EXPECT_EQ(counts.ideal.contraction, 4 * 2 * 3 * pairs);
  EXPECT_EQ(counts.dense.contraction, Count(4 * 2 * 3 * 50));
  EXPECT_EQ(counts.recompute.contraction, 2 * 3 * pairs);
  EXPECT_EQ(counts.recompute.transcendental, pairs);
}

TEST(CountTest, RouteWithBiasAndGroups) {
  // 5 tokens, 6 experts in 3 groups of 2, 2 kept, top 3; counted by hand, one token at a time.
  ClassCounts token;
  token.transcendental = token.divide = 6, token.add = 6; // sigmoid: 1 / (1 + exp(-x))
  token.add += 6;                                         // + bias
  token.compare += 3 * (1 + 0), token.add += 3;           // best two of 2 in each group, and their sum
  token.compare += 2 + 1;                                 // best 2 of 3 groups
  token.compare += 3 + 2 + 1;                             // best 3 of the 4 experts left
  token.add += 2, token.divide += 3;                      // renormalise
  token.multiply += 3;                                    // scale
  token.index += 3 * 3;
  expectCounts(
      countOf(single("%l: tensor<5x6xf32>, %b: tensor<6xf32>", "%r, %g, %p",
                     "sluice.route %l, %b {top_k = 3 : i64, score = \"sigmoid\", renormalize = true, "
                     "scale = 2.5 : f64, groups = 3 : i64, groups_kept = 2 : i64, group_score = "
                     "\"sum_of_best_two\"} : (tensor<5x6xf32>, tensor<6xf32>) -> (!sluice.routing<experts = "
                     "6, top_k = 3, tokens = \"5\">, tensor<5x3xf32>, tensor<5x6xf32>)"))
          .ideal,
      token.times(5));
}

TEST(CountTest, NormsAndElementwise) {
  // accounting.md 1.6: RMSNorm 4 an element, 3 a row; softmax 5 a score; RoPE 3 an element; SwiGLU 5 an
  // element.
  ClassCounts norm;
  norm.multiply = 3 * 24, norm.add = 24 + 6, norm.divide = 2 * 6;
  expectCounts(
      countOf(single("%x: tensor<2x3x4xf32>, %g: tensor<4xf32>", "%y, %r",
                     "sluice.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) "
                     "-> (tensor<2x3x4xf32>, tensor<2x3x1xf32>)"))
          .ideal,
      norm);
  ClassCounts softmax;
  softmax.compare = softmax.transcendental = softmax.divide = 6, softmax.add = 12;
  expectCounts(
      countOf(single("%x: tensor<2x3xf32>", "%y", "sluice.softmax %x : (tensor<2x3xf32>) -> tensor<2x3xf32>"))
          .ideal,
      softmax);
  ClassCounts rope;
  rope.multiply = 4 * 12, rope.add = 2 * 12;
  expectCounts(
      countOf(single("%x: tensor<1x3x8xf32>", "%y",
                     "sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<1x3x8xf32>) -> "
                     "tensor<1x3x8xf32>"))
          .ideal,
      rope);
  ClassCounts swiglu;
  swiglu.transcendental = swiglu.add = swiglu.divide = 6, swiglu.multiply = 12;
  expectCounts(countOf(single("%x: tensor<2x3xf32>", "%y",
                              "sluice.swiglu %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"))
                   .ideal,
               swiglu);
}

TEST(CountTest, PrimitivesAndLookups) {
  ClassCounts map;
  map.multiply = 6, map.compare = 12, map.divide = 6; // constants and sign changes are free
  expectCounts(countOf(single("%x: tensor<2x3xf32>", "%y",
                              R"(sluice.map (%a = %x) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
      %c = arith.constant 2.0 : f32  %n = arith.negf %a : f32  %m = arith.mulf %n, %c : f32
      %p = arith.cmpf ogt, %m, %c : f32  %s = arith.select %p, %m, %c : f32  %r = math.sqrt %s : f32
      sluice.yield %r : f32 })"))
                   .ideal,
               map);
  ClassCounts sum;
  sum.add = 24;
  expectCounts(
      countOf(single("%x: tensor<2x3x4xf32>", "%y",
                     "sluice.reduce %x {axes = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>"))
          .ideal,
      sum);
  ClassCounts product;
  product.contraction = 2 * 2 * 3 * 4 * 5;
  expectCounts(countOf(single("%x: tensor<2x3x4xf32>, %w: tensor<2x4x5xf32>", "%y",
                              "sluice.contract %x, %w {equation = \"bij,bjk->bik\"} : (tensor<2x3x4xf32>, "
                              "tensor<2x4x5xf32>) -> tensor<2x3x5xf32>"))
                   .ideal,
               product);
  ClassCounts lookup;
  lookup.index = 6;
  expectCounts(
      countOf(single("%x: tensor<2x3xi32>, %w: tensor<9x5xf32>", "%y",
                     "sluice.embedding %x, %w : (tensor<2x3xi32>, tensor<9x5xf32>) -> tensor<2x3x5xf32>"))
          .ideal,
      lookup);
  ClassCounts biased;
  biased.contraction = 2 * 6 * 4 * 5, biased.add = 30;
  expectCounts(
      countOf(single("%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>, %b: tensor<5xf32>", "%y",
                     "sluice.linear %x, %w bias %b : (tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32>) -> "
                     "tensor<2x3x5xf32>"))
          .ideal,
      biased);
}

TEST(CountTest, CountsBeyondSixtyFourBits) {
  // 2 * 2^40 * 2^20 * 2^20 = 2^81.
  EXPECT_EQ(
      toDecimal(countOf(single("%x: tensor<1099511627776x1048576xf32>, %w: tensor<1048576x1048576xf32>", "%y",
                               "sluice.linear %x, %w : (tensor<1099511627776x1048576xf32>, "
                               "tensor<1048576x1048576xf32>) -> tensor<1099511627776x1048576xf32>"))
                    .ideal.contraction),
      "2417851639229258349412352");
}

// ----- decompositions
// --------------------------------------------------------------------------------------------

TEST(DecompositionTest, SameValuesAndSameCounts) {
  const char *bodies[] = {
      "%r, %s = sluice.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) -> "
      "(tensor<2x3x4xf32>, tensor<2x3x1xf32>)",
      "%r, %s = sluice.layer_norm %x {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>) -> "
      "(tensor<2x3x4xf32>, tensor<2x3x1xf32>)",
      "%r, %s = sluice.layer_norm %x gain %g bias %g {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, "
      "tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>)",
      "%r = sluice.position_embedding %x, %t : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.position_embedding_gradient %x {positions = 5 : i64} : (tensor<2x3x4xf32>) -> "
      "tensor<5x4xf32>",
      "%r = sluice.swiglu %x, %y : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.softmax %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.add %x, %y : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.multiply %x, %g : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.scale %x {factor = 0.1 : f64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.pad %x {offsets = array<i64: 1, 0, 2>, shape = array<i64: 3, 3, 7>} : (tensor<2x3x4xf32>) "
      "-> "
      "tensor<3x3x7xf32>",
      "%r = sluice.activation %x {function = \"silu\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.activation %x {function = \"gelu\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.activation %x {function = \"gelu_tanh\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.activation %x {function = \"relu\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.activation %x {function = \"relu_squared\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.activation %x {function = \"tanh\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
      "%r = sluice.activation %x {function = \"sigmoid\"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
  };
  for (const std::string body : bodies) {
    SCOPED_TRACE(body);
    const std::string type = body.substr(body.rfind("-> ") + 3);
    const std::string result = type.back() == ')' ? "tensor<2x3x4xf32>" : type;
    const std::string text =
        "sluice.graph @g(%x: tensor<2x3x4xf32>, %y: tensor<2x3x4xf32>, %g: tensor<4xf32>, %t: "
        "tensor<5x4xf32>) {\n" +
        body + "\nsluice.return %r [\"r\"] : " + result + "\n}";
    TestGraph named(text), primitive(text);
    ASSERT_TRUE(named.valid()) << named.errors();
    primitive.decomposeAll();
    auto valueOf = [](TestGraph &graph) {
      return graph.evaluate(graph.draw(3))
          .find(graph.graph().getBlock()->getTerminator()->getOperand(0))
          ->second;
    };
    EXPECT_LT(relativeError(valueOf(primitive), valueOf(named)), 1e-14);
    expectCounts(countOf(primitive).ideal, countOf(named).ideal);
  }
}

// ----- meanings
// --------------------------------------------------------------------------------------------------

/// Evaluates the op of a one-op graph and returns its result `index`.
HostTensor evaluateOne(const std::string &text, llvm::ArrayRef<HostTensor> inputs, unsigned index = 0) {
  TestGraph graph(text);
  EXPECT_TRUE(graph.valid()) << graph.errors();
  return graph.valid() ? graph.evaluate(inputs).find(graph.ops().front()->getResult(index))->second
                       : HostTensor();
}

HostTensor tensor(llvm::ArrayRef<int64_t> shape, std::vector<double> values) {
  HostTensor result(shape);
  result.values = std::move(values);
  return result;
}

TEST(MeaningTest, RopeTurnsPairsHalfAHeadApart) {
  const std::string text =
      single("%x: tensor<1x2x4xf32>", "%y",
             "sluice.rope %x {heads = 1 : i64, theta = 100.0 : f64} : (tensor<1x2x4xf32>) -> "
             "tensor<1x2x4xf32>");
  HostTensor y = evaluateOne(text, {tensor({1, 2, 4}, {1, 2, 3, 4, 1, 0, 0, 1})});
  // Position 0 stays; at position 1 pair (0, 2) turns by 1 and pair (1, 3) by 100^(-1/2) = 0.1.
  const double expected[] = {1, 2, 3, 4, std::cos(1.0), -std::sin(0.1), std::sin(1.0), std::cos(0.1)};
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-15);
}

TEST(MeaningTest, CausalAttentionOfTwoPositions) {
  const std::string text =
      single("%q: tensor<1x2x1xf32>, %v: tensor<1x2x1xf32>", "%y, %l",
             "sluice.attention %q, %q, %v {heads = 1 : i64, kv_heads = 1 : i64, scale = 2.0 : "
             "f64, causal = true} : (tensor<1x2x1xf32>, tensor<1x2x1xf32>, tensor<1x2x1xf32>) "
             "-> (tensor<1x2x1xf32>, tensor<1x1x2xf32>)");
  const HostTensor q = tensor({1, 2, 1}, {1, 2}), v = tensor({1, 2, 1}, {10, 20});
  HostTensor y = evaluateOne(text, {q, v}), l = evaluateOne(text, {q, v}, 1);
  // Position 1 scores 4 and 8.
  const double first = 1 / (1 + std::exp(4.0));
  EXPECT_EQ(y[0], 10);
  EXPECT_NEAR(y[1], 10 * first + 20 * (1 - first), 1e-13);
  EXPECT_NEAR(l[0], 2, 1e-15);
  EXPECT_NEAR(l[1], std::log(std::exp(4.0) + std::exp(8.0)), 1e-14);
}

TEST(MeaningTest, EmbeddingGradientSumsRepeatedIds) {
  HostTensor dtable =
      evaluateOne(single("%i: tensor<3xi32>, %d: tensor<3x2xf32>", "%t",
                         "sluice.embedding_gradient %i, %d {vocabulary = 4 : i64} : (tensor<3xi32>, "
                         "tensor<3x2xf32>) -> tensor<4x2xf32>"),
                  {tensor({3}, {2, 0, 2}), tensor({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(dtable.values, (std::vector<double>{3, 4, 0, 0, 6, 8, 0, 0}));
}

TEST(MeaningTest, AnIdOutOfRangeIsAnError) {
  TestGraph graph(single("%i: tensor<1xi32>, %t: tensor<4x2xf32>", "%y",
                         "sluice.embedding %i, %t : (tensor<1xi32>, tensor<4x2xf32>) -> tensor<1x2xf32>"));
  const HostTensor ids = tensor({1}, {4}), table(llvm::ArrayRef<int64_t>{4, 2});
  Evaluation evaluation(graph.ops().front(), {&ids, &table});
  EXPECT_TRUE(mlir::failed(graph.only<EmbeddingOp>().evaluate(evaluation)));
}

TEST(MeaningTest, RandomNormalIsTheRuntimesStream) {
  HostTensor values =
      evaluateOne(single("%s: tensor<1xi64>", "%v",
                         "sluice.random_normal %s {stream = \"layers.0.wq\", standard_deviation = "
                         "0.5 : f64, type = tensor<2x3xf32>} : (tensor<1xi64>) -> tensor<2x3xf32>"),
                  {tensor({1}, {7})});
  const PhiloxStream stream(7, streamKey("layers.0.wq"));
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(values[i],
              static_cast<double>(static_cast<float>(0.5 * stream.normal(static_cast<uint64_t>(i)))));
}

std::string adamwGraph(double clip) {
  return single(
      "%w: tensor<2xf32>, %m: tensor<2xf32>, %v: tensor<2xf32>, %g: tensor<2xf32>, %r: tensor<f32>, %s: "
      "tensor<f32>, %t: tensor<f32>, %n: tensor<f32>",
      "%a, %b, %c, %d",
      "sluice.adamw %w, %m, %v, %g, %r, %s, %t, %n {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 "
      ": f64, weight_decay = 0.1 : f64, clip = " +
          std::to_string(clip) +
          " : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, "
          "tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, "
          "tensor<2xf32>)");
}

std::vector<HostTensor> adamwInputs(double norm) {
  return {tensor({2}, {1, -2}), tensor({2}, {0.1, 0.2}), tensor({2}, {0.3, 0.4}), tensor({2}, {8, -4}),
          tensor({}, {0.01}),   tensor({}, {3}),         tensor({}, {4}),         tensor({}, {norm})};
}

TEST(MeaningTest, AdamW) {
  // The first weight by hand: s = 4 tokens, g = 2, mean norm 2.5 > clip 1.
  const double g = 2 * (1 / (2.5 + 1e-6)), m = 0.9 * 0.1 + 0.1 * g, v = 0.95 * 0.3 + 0.05 * g * g;
  const double w = (1 - 0.01 * 0.1) -
                   0.01 * (m / (1 - std::pow(0.9, 3))) / (std::sqrt(v / (1 - std::pow(0.95, 3))) + 1e-8);
  EXPECT_NEAR(evaluateOne(adamwGraph(1), adamwInputs(10), 0)[0], w, 1e-15);
  EXPECT_NEAR(evaluateOne(adamwGraph(1), adamwInputs(10), 1)[0], m, 1e-15);
  EXPECT_NEAR(evaluateOne(adamwGraph(1), adamwInputs(10), 2)[0], v, 1e-15);
  EXPECT_EQ(evaluateOne(adamwGraph(1), adamwInputs(10), 3).values, (std::vector<double>{0, 0}));
  // No clipping below the limit: clip 0 and a large limit agree.
  EXPECT_EQ(evaluateOne(adamwGraph(0), adamwInputs(10), 0).values,
            evaluateOne(adamwGraph(9), adamwInputs(10), 0).values);
}

TEST(MeaningTest, AdamWSkipsANormThatIsNotFinite) {
  for (double norm : {double(INFINITY), -double(INFINITY), double(NAN)}) {
    for (unsigned result = 0; result < 3; ++result)
      EXPECT_EQ(evaluateOne(adamwGraph(1), adamwInputs(norm), result).values,
                adamwInputs(norm)[result].values);
    for (double gradient : evaluateOne(adamwGraph(1), adamwInputs(norm), 3).values)
      EXPECT_TRUE(std::isnan(gradient)) << "the next step must not change anything either";
  }
}

// ----- commands
// --------------------------------------------------------------------------------------------------

TEST(CommandTest, ContractIsAGemmWhereFoldingGivesOne) {
  auto form = [](llvm::StringRef text) -> std::string {
    std::string error;
    std::optional<Einsum> equation = Einsum::parse(text, error);
    EXPECT_TRUE(equation) << error;
    std::optional<GemmForm> found = gemmForm(*equation);
    return found ? std::string(found->transposeA ? "T" : "N") + (found->transposeB ? "T" : "N") : "none";
  };
  EXPECT_EQ(form("mk,kn->mn"), "NN");
  EXPECT_EQ(form("mk,nk->mn"), "NT");
  EXPECT_EQ(form("km,kn->mn"), "TN");
  EXPECT_EQ(form("km,nk->mn"), "TT");
  EXPECT_EQ(form("bso,oi->bsi"), "NN");    // dx of linear
  EXPECT_EQ(form("bso,bsi->oi"), "TN");    // dw of linear
  EXPECT_EQ(form("mkl,nkl->mn"), "none");  // K is not one dimension of an untransposed A
  EXPECT_EQ(form("bij,bjk->bik"), "none"); // batch
  EXPECT_EQ(form("mk,kn->nm"), "none");    // result transposed
  EXPECT_EQ(form("ij,j->i"), "none");      // no N
  EXPECT_EQ(form("bso,sbi->oi"), "none");  // summed letters in another order
}

TEST(CommandTest, Attributes) {
  TestGraph graph(tinyAttention(true));
  ASSERT_TRUE(graph.valid());
  mlir::NamedAttrList attributes;
  auto attention = graph.only<AttentionOp>();
  EXPECT_EQ(attention.commandKind(), "attention_forward");
  attention.commandAttributes(attributes);
  auto integer = [&](llvm::StringRef name) {
    return llvm::cast<mlir::IntegerAttr>(attributes.get(name)).getInt();
  };
  EXPECT_EQ(integer("heads"), 4);
  EXPECT_EQ(integer("kv_heads"), 2);
  EXPECT_EQ(integer("head_dim"), 2);
  EXPECT_EQ(integer("causal"), 1);
  attributes = {};
  auto linear = graph.only<LinearOp>();
  EXPECT_EQ(linear.commandKind(), "gemm");
  linear.commandAttributes(attributes);
  EXPECT_EQ(integer("transpose_a"), 0);
  EXPECT_EQ(integer("transpose_b"), 1);
  EXPECT_EQ(integer("parameter_b"), 1);
}

} // namespace
} // namespace sluice::test
