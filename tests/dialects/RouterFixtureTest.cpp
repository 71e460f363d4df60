// The published routing cases (tests/data/router): ids exact, gates, losses and their gradients to 1e-12,
// through the interpreter.
#include "dialects/interpreter/Interpreter.h"
#include "dialects/sluice/Sluice.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/TensorConversion.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace sluice {
namespace {

struct RouterCase {
  const char *name;
  bool renormalize;
  const char *score = "softmax";
  double scale = 1;
  const char *selection = ""; // further attributes of route; not empty: with the file's bias
};

class RouterFixture : public testing::TestWithParam<RouterCase> {
protected:
  void SetUp() override {
    StatusOr<SafetensorsFile> opened =
        SafetensorsFile::open(std::string(SLUICE_TEST_DATA) + "/router/io.safetensors");
    ASSERT_TRUE(opened.ok()) << opened.status();
    file = std::move(*opened);
  }

  HostTensor read(const std::string &name) {
    const TensorView *view = file.find(std::string(GetParam().name) + "/" + name);
    HostTensor tensor;
    if (!view) {
      ADD_FAILURE() << name << " is missing";
      return tensor;
    }
    tensor.shape.assign(view->shape.begin(), view->shape.end());
    StatusOr<std::vector<double>> values = toFloat64(*view);
    EXPECT_TRUE(values.ok()) << values.status();
    tensor.values = *values;
    return tensor;
  }

  void expectNear(const HostTensor &actual, const std::string &name) {
    HostTensor expected = read(name);
    ASSERT_EQ(actual.size(), expected.size()) << name;
    for (int64_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i])))
          << name << "[" << i << "]";
  }

  SafetensorsFile file;
};

/// Route, both losses and all adjoints, with T tokens, E experts and K choices in place of the letters.
std::string graphText(int64_t tokens, int64_t experts, int64_t topK, const RouterCase &router) {
  std::string t = std::to_string(tokens), e = std::to_string(experts), k = std::to_string(topK);
  std::string scores = "tensor<" + t + "x" + e + "xf32>", gates = "tensor<" + t + "x" + k + "xf32>";
  std::string targets = "tensor<" + t + "xi32>";
  std::string routing = "!sluice.routing<experts = " + e + ", top_k = " + k + ", tokens = \"" + t + "\">";
  const std::string flag = router.renormalize ? "true" : "false", score = router.score;
  const std::string biasType = "tensor<" + e + "xf32>", selection = router.selection;
  const std::string normalize = score == "sigmoid" ? "true" : "false";
  const bool biased = !selection.empty();
  const std::string gateRule = "{score = \"" + score + "\", renormalize = " + flag +
                               ", epsilon = 0.0 : f64, scale = " + std::to_string(router.scale) + " : f64}";
  auto types = [](std::initializer_list<std::string> operands, const std::string &results) {
    std::string text = " : (";
    for (const std::string &operand : operands)
      text += (text.back() == '(' ? "" : ", ") + operand;
    return text + ") -> " + results + "\n";
  };
  const std::string scalar = "tensor<f32>";
  return "sluice.graph @router(%logits: " + scores + ", %targets: " + targets + ", %dgates: " + gates +
         ", %bias: " + biasType + ") {\n" + "%r, %gates, %probs = sluice.route %logits" +
         (biased ? ", %bias" : "") + " {top_k = " + k + " : i64, score = \"" + score +
         "\", renormalize = " + flag + ", scale = " + std::to_string(router.scale) + " : f64" + selection +
         "}" +
         (biased ? types({scores, biasType}, "(" + routing + ", " + gates + ", " + scores + ")")
                 : types({scores}, "(" + routing + ", " + gates + ", " + scores + ")")) +
         "%one = sluice.constant {value = 1.0 : f64, shape = array<i64>}" + types({}, scalar) +
         "%none = sluice.constant {value = 0.0 : f64, shape = array<i64: " + t + ", " + e + ">}" +
         types({}, scores) + "%nogates = sluice.constant {value = 0.0 : f64, shape = array<i64: " + t + ", " +
         k + ">}" + types({}, gates) +
         "%balance = sluice.switch_balance %probs, %r, %targets {normalize = " + normalize + "}" +
         types({scores, routing, targets}, scalar) +
         "%dprobs = sluice.switch_balance_gradient %probs, %r, %targets, %one {normalize = " + normalize +
         "}" + types({scores, routing, targets, scalar}, scores) + "%z = sluice.router_z %logits, %targets" +
         types({scores, targets}, scalar) + "%dz = sluice.router_z_gradient %logits, %targets, %one" +
         types({scores, targets, scalar}, scores) +
         "%statistics = sluice.routing_statistics %logits, %probs, %r, %targets" +
         types({scores, scores, routing, targets}, "tensor<" + std::to_string(experts + 4) + "xf32>") +
         "%dbalance = sluice.route_gradient %probs, %gates, %r, %nogates, %dprobs " + gateRule +
         types({scores, gates, routing, gates, scores}, scores) +
         "%dchosen = sluice.route_gradient %probs, %gates, %r, %dgates, %none " + gateRule +
         types({scores, gates, routing, gates, scores}, scores) +
         "sluice.return %r, %gates, %balance, %z, %statistics, %dbalance, %dz, %dchosen "
         "[\"routing\", \"gates\", \"balance\", \"z\", \"statistics\", \"dbalance\", \"dz\", \"dchosen\"] "
         ": " +
         routing + ", " + gates + ", " + scalar + ", " + scalar + ", tensor<" + std::to_string(experts + 4) +
         "xf32>, " + scores + ", " + scores + ", " + scores + "\n}\n";
}

TEST_P(RouterFixture, MatchesThePublishedNumbers) {
  HostTensor logits = read("logits"), ids = read("ids"), weights = read("token_weight"),
             counts = read("counts");
  const int64_t tokens = logits.shape[0], experts = logits.shape[1], topK = ids.shape[1];
  MLIRContext context;
  context.loadDialect<SluiceDialect>();
  auto module = parseSourceString<ModuleOp>(graphText(tokens, experts, topK, GetParam()), &context);
  ASSERT_TRUE(module);

  TensorMap inputs, states;
  inputs["logits"] = logits;
  inputs["dgates"] = read("dgates");
  inputs["bias"] = *GetParam().selection ? read("bias") : HostTensor({experts});
  inputs["targets"] = HostTensor({tokens});
  for (int64_t t = 0; t < tokens; ++t)
    inputs["targets"][t] = weights[t] == 0 ? -100 : 0;
  StatusOr<TensorMap> outputs = Interpreter(*module).run("router", inputs, states);
  ASSERT_TRUE(outputs.ok()) << outputs.status();

  for (int64_t slot = 0; slot < tokens * topK; ++slot)
    ASSERT_EQ((*outputs)["routing"][slot], ids[slot])
        << "choice " << slot % topK << " of token " << slot / topK;
  for (int64_t e = 0; e < experts; ++e)
    EXPECT_EQ((*outputs)["statistics"][e], counts[e]) << "count of expert " << e;
  expectNear((*outputs)["gates"], "gates");
  expectNear((*outputs)["balance"], "balance");
  expectNear((*outputs)["z"], "z");
  expectNear((*outputs)["dbalance"], "dlogits_balance");
  expectNear((*outputs)["dz"], "dlogits_z");
  expectNear((*outputs)["dchosen"], "dlogits_gates");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RouterFixture,
    testing::Values(RouterCase{"mixtral-4-top2", true}, RouterCase{"olmoe-16-top4", false},
                    RouterCase{"switch-8-top1", false}, RouterCase{"top2-with-ties", true},
                    RouterCase{"top2-ignored-targets", true}, RouterCase{"all-on-one-expert", false},
                    RouterCase{
                        "sigmoid-bias-groups", true, "sigmoid", 2.5,
                        ", groups = 4 : i64, groups_kept = 2 : i64, group_score = \"sum_of_best_two\""}),
    [](const auto &info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

} // namespace
} // namespace sluice
