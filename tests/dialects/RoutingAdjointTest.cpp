// Adjoints of routing, experts' products and losses against central differences. Ids come from the same
// logits; the drawn logits are further apart than the steps, so ids stay as they are.
#include "tests/dialects/TestGraph.h"

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

constexpr const char *routing = "!sluice.routing<experts = 5, top_k = 2, tokens = \"6\">";
const std::string route =
    R"(%r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "SCORE", renormalize = NORM, EXTRA}
  : (tensor<2x3x5xf32>) -> ()" +
    std::string(routing) + ", tensor<2x3x2xf32>, tensor<2x3x5xf32>)\n";

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string routeText(const std::string &score, bool renormalize,
                      const std::string &extra = "epsilon = 0.0 : f64, scale = 1.0 : f64") {
  return replaced(replaced(replaced(route, "SCORE", score), "NORM", renormalize ? "true" : "false"), "EXTRA",
                  extra);
}

std::string graphText(const std::string &arguments, const std::string &body, const std::string &returned) {
  return "sluice.graph @g(" + arguments + ") {\n" + replaced(body, "ROUTING", routing) + "\nsluice.return " +
         returned + "\n}\n";
}

TEST(RoutingAdjointTest, Route) {
  for (const char *score : {"softmax", "sigmoid"})
    for (bool renormalize : {false, true})
      for (const char *extra :
           {"epsilon = 0.0 : f64, scale = 1.0 : f64", "epsilon = 0.25 : f64, scale = 2.5 : f64"})
        checkAdjoint(graphText("%l: tensor<2x3x5xf32>", routeText(score, renormalize, extra),
                               "%g, %p [\"g\", \"p\"] : tensor<2x3x2xf32>, tensor<2x3x5xf32>"));
}

TEST(RoutingAdjointTest, RouteWithASelectionBiasAndGroups) {
  // The bias decides the choice, so its gradient is zero wherever it exists.
  const std::string six = replaced(
      R"(%r, %g, %p = sluice.route %l, %b {top_k = 2 : i64, score = "SCORE", renormalize = true, scale = 2.5 : f64,
  groups = 3 : i64, groups_kept = 2 : i64, group_score = "RULE"}
  : (tensor<2x3x6xf32>, tensor<6xf32>) -> (ROUTING6, tensor<2x3x2xf32>, tensor<2x3x6xf32>)
)",
      "ROUTING6", "!sluice.routing<experts = 6, top_k = 2, tokens = \"6\">");
  for (const char *score : {"softmax", "sigmoid"})
    for (const char *rule : {"maximum", "sum_of_best_two"})
      checkAdjoint(graphText("%l: tensor<2x3x6xf32>, %b: tensor<6xf32>",
                             replaced(replaced(six, "SCORE", score), "RULE", rule),
                             "%g, %p [\"g\", \"p\"] : tensor<2x3x2xf32>, tensor<2x3x6xf32>"));
}

TEST(RoutingAdjointTest, RouteWithOneCotangentMissing) {
  checkAdjoint(
      graphText("%l: tensor<2x3x5xf32>", routeText("softmax", true), "%g [\"g\"] : tensor<2x3x2xf32>"));
  checkAdjoint(
      graphText("%l: tensor<2x3x5xf32>", routeText("softmax", true), "%p [\"p\"] : tensor<2x3x5xf32>"));
}

TEST(RoutingAdjointTest, DispatchAndCombine) {
  checkAdjoint(
      graphText("%l: tensor<2x3x5xf32>, %x: tensor<2x3x4xf32>",
                routeText("softmax", true) +
                    "%y = sluice.dispatch %x by %r : (tensor<2x3x4xf32>, ROUTING) -> tensor<12x4xf32>",
                "%y, %g [\"y\", \"g\"] : tensor<12x4xf32>, tensor<2x3x2xf32>"));
  checkAdjoint(graphText("%l: tensor<2x3x5xf32>, %x: tensor<6x4xf32>",
                         routeText("softmax", false) +
                             "%y = sluice.dispatch %x by %r gates %g : (tensor<6x4xf32>, "
                             "ROUTING, tensor<2x3x2xf32>) -> tensor<12x4xf32>",
                         "%y [\"y\"] : tensor<12x4xf32>"));
  checkAdjoint(graphText("%l: tensor<2x3x5xf32>, %x: tensor<12x4xf32>",
                         routeText("softmax", false) +
                             "%y = sluice.combine %x by %r gates %g : (tensor<12x4xf32>, "
                             "ROUTING, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>",
                         "%y [\"y\"] : tensor<2x3x4xf32>"));
  checkAdjoint(graphText("%l: tensor<2x3x5xf32>, %x: tensor<12x4xf32>",
                         routeText("sigmoid", false) +
                             "%y = sluice.combine %x by %r : (tensor<12x4xf32>, ROUTING) -> tensor<6x4xf32>",
                         "%y, %g [\"y\", \"g\"] : tensor<6x4xf32>, tensor<2x3x2xf32>"));
}

TEST(RoutingAdjointTest, GroupedLinear) {
  checkAdjoint(
      graphText("%l: tensor<2x3x5xf32>, %x: tensor<12x4xf32>, %w: tensor<5x3x4xf32>, %b: tensor<5x3xf32>",
                routeText("softmax", true) +
                    "%y = sluice.grouped_linear %x, %w by %r bias %b : (tensor<12x4xf32>, tensor<5x3x4xf32>, "
                    "ROUTING, tensor<5x3xf32>) -> tensor<12x3xf32>",
                "%y, %g [\"y\", \"g\"] : tensor<12x3xf32>, tensor<2x3x2xf32>"));
  checkAdjoint(
      graphText("%l: tensor<2x3x5xf32>, %x: tensor<12x4xf32>, %w: tensor<5x4x3xf32>",
                routeText("softmax", true) +
                    "%y = sluice.grouped_linear %x, %w by %r {transpose_weight = true} : (tensor<12x4xf32>, "
                    "tensor<5x4x3xf32>, ROUTING) -> tensor<12x3xf32>",
                "%y, %g [\"y\", \"g\"] : tensor<12x3xf32>, tensor<2x3x2xf32>"));
}

TEST(RoutingAdjointTest, Losses) {
  // Targets are drawn from 0 .. 4; one of them is ignored.
  for (int ignored : {-100, 2}) {
    std::string attributes = "ignore_index = " + std::to_string(ignored) + " : i64";
    checkAdjoint(graphText("%l: tensor<2x3x5xf32>, %t: tensor<2x3xi32>",
                           "%y = sluice.cross_entropy %l, %t {" + attributes +
                               "} : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> tensor<f32>",
                           "%y [\"y\"] : tensor<f32>"));
    checkAdjoint(graphText("%l: tensor<2x3x5xf32>, %t: tensor<2x3xi32>",
                           "%y = sluice.router_z %l, %t {" + attributes +
                               "} : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> tensor<f32>",
                           "%y [\"y\"] : tensor<f32>"));
    for (const char *normalize : {"false", "true"})
      checkAdjoint(graphText(
          "%l: tensor<2x3x5xf32>, %t: tensor<2x3xi32>",
          routeText("sigmoid", false) + "%y = sluice.switch_balance %p, %r, %t {normalize = " + normalize +
              ", " + attributes + "} : (tensor<2x3x5xf32>, ROUTING, tensor<2x3xi32>) -> tensor<f32>",
          "%y [\"y\"] : tensor<f32>"));
  }
}

TEST(RoutingAdjointTest, LossesWithoutACountedTokenAreZero) {
  TestGraph graph(graphText(
      "%l: tensor<2x3x5xf32>, %t: tensor<2x3xi32>",
      routeText("softmax", true) +
          "%y = sluice.switch_balance %p, %r, %t {normalize = false} : (tensor<2x3x5xf32>, ROUTING, "
          "tensor<2x3xi32>) -> "
          "tensor<f32>\n%z = sluice.router_z %l, %t : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> tensor<f32>\n"
          "%c = sluice.cross_entropy %l, %t : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> tensor<f32>",
      "%y, %z, %c [\"y\", \"z\", \"c\"] : tensor<f32>, tensor<f32>, tensor<f32>"));
  ASSERT_TRUE(graph.valid()) << graph.errors();
  std::vector<HostTensor> inputs = graph.draw(1);
  inputs[1] = HostTensor({2, 3}, -100.0);
  EXPECT_EQ(graph.objective(inputs), 0.0);
}

/// Parses a graph that must not verify and returns the messages.
std::string errorsOf(const std::string &text) {
  TestGraph graph(text);
  EXPECT_FALSE(graph.valid()) << text;
  return graph.errors();
}

TEST(RoutingRules, MessagesSayTheRule) {
  const std::string constant =
      replaced(replaced(routeText("softmax", true), "top_k = 2", "top_k = 1"), "2x3x2", "2x3x1");
  EXPECT_NE(errorsOf(graphText("%l: tensor<2x3x5xf32>", constant, "%p [\"p\"] : tensor<2x3x5xf32>"))
                .find("cross-entropy gives the router no gradient"),
            std::string::npos);
  const std::string many =
      replaced(replaced(routeText("softmax", true), "top_k = 2", "top_k = 6"), "2x3x2", "2x3x6");
  EXPECT_NE(errorsOf(graphText("%l: tensor<2x3x5xf32>", many, "%p [\"p\"] : tensor<2x3x5xf32>"))
                .find("top_k = 6 of 5 experts"),
            std::string::npos);
  // Two assignments of one type are still two assignments.
  std::string two =
      routeText("softmax", true) +
      replaced(replaced(replaced(routeText("softmax", true), "%r,", "%q,"), "%g,", "%h,"), "%p =", "%o =") +
      "%x = sluice.dispatch %l by %r : (tensor<2x3x5xf32>, ROUTING) -> tensor<12x5xf32>\n"
      "%s = sluice.scale %x {factor = 2.0 : f64} : (tensor<12x5xf32>) -> tensor<12x5xf32>\n"
      "%y = sluice.combine %s by %q : (tensor<12x5xf32>, ROUTING) -> tensor<6x5xf32>";
  EXPECT_NE(errorsOf(graphText("%l: tensor<2x3x5xf32>", two, "%y [\"y\"] : tensor<6x5xf32>"))
                .find("another assignment than the one named here"),
            std::string::npos);
}

} // namespace
} // namespace sluice::test
