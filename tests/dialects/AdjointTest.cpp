// Every differentiable op against central differences in float64, inputs away from kinks.
#include "tests/dialects/TestGraph.h"

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

/// A graph with the given arguments, body and returned values (all of type tensor<...xf32>).
std::string graphOf(const std::string &arguments, const std::string &body, const std::string &returned) {
  return "sluice.graph @g(" + arguments + ") {\n" + body + "\nsluice.return " + returned + "\n}\n";
}

/// One elementwise map of x and, if `two`, y; `body` ends with the yielded value %r.
std::string mapGraph(const std::string &body, const std::string &x = "tensor<2x3xf32>",
                     const std::string &y = "tensor<2x3xf32>",
                     const std::string &result = "tensor<2x3xf32>") {
  return graphOf("%x: " + x + ", %y: " + y,
                 "%z = sluice.map (%a = %x, %b = %y) : (" + x + ", " + y + ") -> " + result + " {\n" + body +
                     "\nsluice.yield %r : f32 }",
                 "%z [\"z\"] : " + result);
}

TEST(AdjointTest, MapRules) {
  const char *bodies[] = {
      "%r = arith.addf %a, %b : f32",
      "%r = arith.subf %a, %b : f32",
      "%r = arith.mulf %a, %b : f32",
      "%r = arith.divf %a, %b : f32",
      "%r = arith.negf %a : f32",
      "%r = arith.maximumf %a, %b : f32",
      "%r = arith.minimumf %a, %b : f32",
      "%r = arith.maxnumf %a, %b : f32",
      "%r = arith.minnumf %a, %b : f32",
      "%c = arith.cmpf olt, %a, %b : f32  %p = arith.mulf %a, %a : f32  %r = arith.select %c, %p, %b : f32",
      "%r = math.exp %a : f32",
      "%s = arith.mulf %a, %a : f32  %r = math.log %s : f32",
      "%s = arith.mulf %a, %a : f32  %r = math.sqrt %s : f32",
      "%s = arith.mulf %a, %a : f32  %r = math.rsqrt %s : f32",
      "%r = math.tanh %a : f32",
      "%r = math.erf %a : f32",
      "%r = math.sin %a : f32",
      "%r = math.cos %a : f32",
      "%r = math.absf %a : f32",
      "%c = arith.constant 3.0 : f32  %r = math.powf %a, %c : f32",
      "%c = math.absf %a : f32  %r = math.powf %c, %b : f32",
      // Shared values, a constant, an operand that is read twice and one that is not read.
      R"(%c = arith.constant 0.5 : f32  %s = arith.mulf %a, %c : f32  %t = arith.addf %s, %a : f32
         %e = math.exp %t : f32  %r = arith.mulf %e, %t : f32)",
  };
  for (const char *body : bodies)
    checkAdjoint(mapGraph(body));
}

TEST(AdjointTest, MapBroadcasts) {
  const std::string body = "%p = arith.mulf %a, %b : f32  %r = arith.mulf %p, %a : f32";
  checkAdjoint(mapGraph(body, "tensor<2x3x4xf32>", "tensor<4xf32>", "tensor<2x3x4xf32>"));
  checkAdjoint(mapGraph(body, "tensor<2x1x4xf32>", "tensor<3x1xf32>", "tensor<2x3x4xf32>"));
  checkAdjoint(mapGraph(body, "tensor<f32>", "tensor<3x1xf32>", "tensor<3x1xf32>"));
  checkAdjoint(mapGraph("%r = arith.addf %a, %b : f32", "tensor<3xf32>", "tensor<1xf32>", "tensor<3xf32>"));
}

TEST(AdjointTest, Primitives) {
  const std::string x = "%x: tensor<2x3x4xf32>";
  checkAdjoint(
      graphOf(x, "%y = sluice.reduce %x {axes = array<i64: 0, 2>} : (tensor<2x3x4xf32>) -> tensor<1x3x1xf32>",
              "%y [\"y\"] : tensor<1x3x1xf32>"));
  checkAdjoint(
      graphOf(x,
              "%y = sluice.reduce %x {axes = array<i64: 2>, kind = \"max\"} : (tensor<2x3x4xf32>) -> "
              "tensor<2x3x1xf32>",
              "%y [\"y\"] : tensor<2x3x1xf32>"));
  checkAdjoint(graphOf("%x: tensor<3x1xf32>",
                       "%y = sluice.broadcast %x {shape = array<i64: 2, 3, 4>} : "
                       "(tensor<3x1xf32>) -> tensor<2x3x4xf32>",
                       "%y [\"y\"] : tensor<2x3x4xf32>"));
  checkAdjoint(graphOf(
      x, "%y = sluice.reshape %x {shape = array<i64: 6, -1>} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>",
      "%y [\"y\"] : tensor<6x4xf32>"));
  checkAdjoint(
      graphOf(x,
              "%y = sluice.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> "
              "tensor<4x2x3xf32>",
              "%y [\"y\"] : tensor<4x2x3xf32>"));
  checkAdjoint(
      graphOf(x,
              "%y = sluice.slice %x {offsets = array<i64: 0, 1, 1>, sizes = array<i64: -1, 2, -1>} : "
              "(tensor<2x3x4xf32>) -> tensor<2x2x3xf32>",
              "%y [\"y\"] : tensor<2x2x3xf32>"));
  checkAdjoint(graphOf(x,
                       "%y = sluice.pad %x {offsets = array<i64: 1, 0, 2>, shape = array<i64: 3, 3, 7>} : "
                       "(tensor<2x3x4xf32>) -> tensor<3x3x7xf32>",
                       "%y [\"y\"] : tensor<3x3x7xf32>"));
  checkAdjoint(
      graphOf(x + ", %z: tensor<2x1x4xf32>",
              "%y = sluice.concat %x, %z, %x {axis = 1 : i64} : (tensor<2x3x4xf32>, tensor<2x1x4xf32>, "
              "tensor<2x3x4xf32>) -> tensor<2x7x4xf32>",
              "%y [\"y\"] : tensor<2x7x4xf32>"));
  checkAdjoint(graphOf("%x: tensor<5x2xf32>, %i: tensor<7xi32>",
                       "%y = sluice.gather %x, %i : (tensor<5x2xf32>, tensor<7xi32>) -> tensor<7x2xf32>",
                       "%y [\"y\"] : tensor<7x2xf32>"));
}

TEST(AdjointTest, Contract) {
  struct Case {
    const char *equation, *a, *b, *c;
  } cases[] = {
      {"mk,kn->mn", "2x3", "3x4", "2x4"},
      {"mk,nk->mn", "2x3", "4x3", "2x4"},
      {"km,kn->mn", "3x2", "3x4", "2x4"},
      {"bsi,oi->bso", "2x3x4", "5x4", "2x3x5"},
      {"bij,bjk->bik", "2x3x4", "2x4x2", "2x3x2"},
      {"bso,bsi->oi", "2x3x4", "2x3x5", "4x5"},
      {"i,j->ij", "3", "4", "3x4"},
      {"ij,ij->", "2x3", "2x3", ""},
      {"ij,j->i", "2x3", "3", "2"},
      {"abc,cb->a", "2x3x4", "4x3", "2"},
      {"mk,kn->nm", "2x3", "3x4", "4x2"},
  };
  auto type = [](std::string shape) { return "tensor<" + (shape.empty() ? shape : shape + "x") + "f32>"; };
  for (const Case &c : cases)
    checkAdjoint(graphOf("%a: " + type(c.a) + ", %b: " + type(c.b),
                         std::string("%c = sluice.contract %a, %b {equation = \"") + c.equation + "\"} : (" +
                             type(c.a) + ", " + type(c.b) + ") -> " + type(c.c),
                         "%c [\"c\"] : " + type(c.c)));
}

TEST(AdjointTest, Embedding) {
  checkAdjoint(
      graphOf("%i: tensor<2x3xi32>, %t: tensor<5x4xf32>",
              "%y = sluice.embedding %i, %t : (tensor<2x3xi32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>",
              "%y [\"y\"] : tensor<2x3x4xf32>"));
}

TEST(AdjointTest, Linear) {
  checkAdjoint(
      graphOf("%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>, %b: tensor<5xf32>",
              "%y = sluice.linear %x, %w bias %b : (tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32>) -> "
              "tensor<2x3x5xf32>",
              "%y [\"y\"] : tensor<2x3x5xf32>"));
  checkAdjoint(graphOf("%x: tensor<3x4xf32>, %w: tensor<1x4xf32>",
                       "%y = sluice.linear %x, %w : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<3x1xf32>",
                       "%y [\"y\"] : tensor<3x1xf32>"));
  checkAdjoint(
      graphOf("%x: tensor<1x2x3x4xf32>, %w: tensor<2x4xf32>, %b: tensor<2xf32>",
              "%y = sluice.linear %x, %w bias %b : (tensor<1x2x3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> "
              "tensor<1x2x3x2xf32>",
              "%y [\"y\"] : tensor<1x2x3x2xf32>"));
}

TEST(AdjointTest, RmsNorm) {
  checkAdjoint(graphOf("%x: tensor<2x3x4xf32>, %g: tensor<4xf32>",
                       "%y, %r = sluice.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, "
                       "tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>)",
                       "%y [\"y\"] : tensor<2x3x4xf32>"));
  checkAdjoint(
      graphOf("%x: tensor<7xf32>, %g: tensor<7xf32>",
              "%y, %r = sluice.rms_norm %x, %g {epsilon = 0.1 : f64} : (tensor<7xf32>, tensor<7xf32>) -> "
              "(tensor<7xf32>, tensor<1xf32>)",
              "%y [\"y\"] : tensor<7xf32>"));
}

TEST(AdjointTest, Rope) {
  for (const char *inverse : {"", ", inverse = true"})
    checkAdjoint(graphOf("%x: tensor<2x5x8xf32>",
                         std::string("%y = sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64") + inverse +
                             "} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>",
                         "%y [\"y\"] : tensor<2x5x8xf32>"));
}

TEST(AdjointTest, Attention) {
  for (const char *causal : {"true", "false"}) {
    // Grouped: four query heads read two key/value heads of width 2.
    checkAdjoint(
        graphOf("%q: tensor<2x3x8xf32>, %k: tensor<2x3x4xf32>, %v: tensor<2x3x4xf32>",
                std::string("%y, %l = sluice.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, "
                            "scale = 0.7 : f64, causal = ") +
                    causal +
                    "} : (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> "
                    "(tensor<2x3x8xf32>, tensor<2x4x3xf32>)",
                "%y [\"y\"] : tensor<2x3x8xf32>"));
    // One position.
    checkAdjoint(
        graphOf("%q: tensor<1x1x3xf32>, %k: tensor<1x1x3xf32>, %v: tensor<1x1x3xf32>",
                std::string("%y, %l = sluice.attention %q, %k, %v {heads = 1 : i64, kv_heads = 1 : i64, "
                            "scale = 1.0 : f64, causal = ") +
                    causal +
                    "} : (tensor<1x1x3xf32>, tensor<1x1x3xf32>, tensor<1x1x3xf32>) -> "
                    "(tensor<1x1x3xf32>, tensor<1x1x1xf32>)",
                "%y [\"y\"] : tensor<1x1x3xf32>"));
  }
}

TEST(AdjointTest, AttentionProperties) {
  // Alone and together, with value heads wider than query heads; windows shorter, equal and longer than the
  // sequence.
  auto check = [](const std::string &properties, bool sinks) {
    const std::string types = "tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x6xf32>";
    checkAdjoint(graphOf("%q: tensor<2x5x8xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x6xf32>" +
                             std::string(sinks ? ", %s: tensor<4xf32>" : ""),
                         std::string("%y, %l = sluice.attention %q, %k, %v") + (sinks ? ", %s" : "") +
                             " {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.7 : f64, causal = true" +
                             properties + "} : (" + types + (sinks ? ", tensor<4xf32>" : "") +
                             ") -> (tensor<2x5x12xf32>, tensor<2x4x5xf32>)",
                         "%y [\"y\"] : tensor<2x5x12xf32>"));
  };
  const std::string slopes = ", slopes = array<f64: 0.5, 0.25, 0.125, 0.0625>", cap = ", softcap = 0.8 : f64";
  for (bool sinks : {false, true}) {
    check("", sinks);
    for (const char *window : {"1", "2", "5", "9"})
      check(std::string(", window = ") + window + " : i64", sinks);
    check(cap, sinks);
    check(slopes, sinks);
    check(cap + slopes + ", window = 3 : i64", sinks);
  }
}

TEST(AdjointTest, RopeProperties) {
  for (const char *properties :
       {"rotary_dim = 2 : i64", "offset = 2 : i64", "offset = 1 : i64, rotary_dim = 2 : i64",
        "interleaved = true", "factor = 1.3 : f64", "frequencies = array<f64: 0.9, 0.2>",
        "offset = 2 : i64, interleaved = true, factor = 0.7 : f64, frequencies = array<f64: 0.4>"})
    for (const char *inverse : {"", ", inverse = true"})
      checkAdjoint(graphOf("%x: tensor<2x5x8xf32>",
                           std::string("%y = sluice.rope %x {heads = 2 : i64, theta = 1.0e4 : f64, ") +
                               properties + inverse + "} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>",
                           "%y [\"y\"] : tensor<2x5x8xf32>"));
}

TEST(AdjointTest, LayerNorm) {
  const std::string x = "tensor<2x3x4xf32>", g = "tensor<4xf32>";
  const std::string results = ") -> (" + x + ", tensor<2x3x1xf32>)",
                    attributes = " {epsilon = 1.0e-2 : f64} : (";
  checkAdjoint(
      graphOf("%x: " + x, "%y, %r = sluice.layer_norm %x" + attributes + x + results, "%y [\"y\"] : " + x));
  checkAdjoint(graphOf("%x: " + x + ", %g: " + g,
                       "%y, %r = sluice.layer_norm %x gain %g" + attributes + x + ", " + g + results,
                       "%y [\"y\"] : " + x));
  checkAdjoint(graphOf("%x: " + x + ", %b: " + g,
                       "%y, %r = sluice.layer_norm %x bias %b" + attributes + x + ", " + g + results,
                       "%y [\"y\"] : " + x));
  checkAdjoint(graphOf("%x: " + x + ", %g: " + g + ", %b: " + g,
                       "%y, %r = sluice.layer_norm %x gain %g bias %b" + attributes + x + ", " + g + ", " +
                           g + results,
                       "%y [\"y\"] : " + x));
}

TEST(AdjointTest, PositionEmbedding) {
  for (const char *table : {"tensor<3x4xf32>", "tensor<7x4xf32>"})
    checkAdjoint(graphOf("%x: tensor<2x3x4xf32>, %t: " + std::string(table),
                         "%y = sluice.position_embedding %x, %t : (tensor<2x3x4xf32>, " + std::string(table) +
                             ") -> tensor<2x3x4xf32>",
                         "%y [\"y\"] : tensor<2x3x4xf32>"));
}

TEST(AdjointTest, Elementwise) {
  const std::string t = "tensor<2x3xf32>", two = "%x: tensor<2x3xf32>, %y: tensor<2x3xf32>";
  checkAdjoint(
      graphOf(two, "%z = sluice.swiglu %x, %y : (" + t + ", " + t + ") -> " + t, "%z [\"z\"] : " + t));
  checkAdjoint(graphOf(two, "%z = sluice.add %x, %y : (" + t + ", " + t + ") -> " + t, "%z [\"z\"] : " + t));
  checkAdjoint(
      graphOf(two, "%z = sluice.multiply %x, %y : (" + t + ", " + t + ") -> " + t, "%z [\"z\"] : " + t));
  checkAdjoint(graphOf("%x: " + t, "%z = sluice.multiply %x, %x : (" + t + ", " + t + ") -> " + t,
                       "%z [\"z\"] : " + t));
  for (const char *other : {"tensor<3xf32>", "tensor<2x1xf32>", "tensor<f32>"})
    checkAdjoint(graphOf("%x: " + t + ", %y: " + other,
                         "%z = sluice.multiply %x, %y : (" + t + ", " + other + ") -> " + t,
                         "%z [\"z\"] : " + t));
  checkAdjoint(graphOf("%x: " + t, "%z = sluice.scale %x {factor = -0.3 : f64} : (" + t + ") -> " + t,
                       "%z [\"z\"] : " + t));
  for (const char *shape : {"2x3x", "5x1x", "4x"}) {
    const std::string s = std::string("tensor<") + shape + "f32>";
    checkAdjoint(graphOf("%x: " + s, "%z = sluice.softmax %x : (" + s + ") -> " + s, "%z [\"z\"] : " + s));
  }
  for (const char *function : {"silu", "gelu", "gelu_tanh", "relu", "relu_squared", "tanh", "sigmoid"})
    checkAdjoint(graphOf("%x: " + t,
                         std::string("%z = sluice.activation %x {function = \"") + function + "\"} : (" + t +
                             ") -> " + t,
                         "%z [\"z\"] : " + t));
}

TEST(AdjointTest, SharedValuesAndSeveralOutputs) {
  const std::string t = "tensor<2x3xf32>";
  checkAdjoint(graphOf("%x: " + t + ", %w: tensor<3x3xf32>",
                       "%a = sluice.linear %x, %w : (" + t + ", tensor<3x3xf32>) -> " + t +
                           "\n%b = sluice.swiglu %a, %x : (" + t + ", " + t + ") -> " + t +
                           "\n%c = sluice.linear %b, %w : (" + t + ", tensor<3x3xf32>) -> " + t +
                           "\n%d = sluice.add %c, %a : (" + t + ", " + t + ") -> " + t,
                       "%d, %b [\"d\", \"b\"] : " + t + ", " + t));
}

} // namespace
} // namespace sluice::test
