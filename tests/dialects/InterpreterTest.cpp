// The interpreter on written models: notations, states, outputs, initial values, messages.
#include "dialects/interpreter/Interpreter.h"
#include "dialects/plan/Plan.h"
#include "dialects/sluice/Notation.h"
#include "runtime/support/Philox.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace sluice {
namespace {

class InterpreterTest : public testing::Test {
protected:
  InterpreterTest() { context.loadDialect<SluiceDialect, plan::PlanDialect>(); }

  Interpreter parse(const std::string &text, InterpreterOptions options = {}) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return Interpreter(*module, std::move(options));
  }

  static HostTensor tensor(llvm::ArrayRef<int64_t> shape, std::vector<double> values) {
    HostTensor result(shape);
    result.values = std::move(values);
    return result;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

const char *const layers = R"(
sluice.graph @model(%x: tensor<2xf32>) {
  %y = sluice.repeat "layers" times 3 (%h = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %s = sluice.scope "block" role "mlp" -> tensor<2xf32> {
      %w = sluice.param "gain" init #sluice.normal<0.5> role "norm" checkpoint "h.{layer}.gain" : tensor<2xf32>
      %p = sluice.multiply %h, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %l = sluice.constant {value = 2.0 : f64, shape = array<i64>} : () -> tensor<f32>
      sluice.auxiliary_loss "balance" %l weight 0.5 : tensor<f32>
      sluice.observe "seen" %p : tensor<2xf32>
      sluice.yield %p : tensor<2xf32>
    }
    sluice.yield %s : tensor<2xf32>
  }
  sluice.return %y ["y"] : tensor<2xf32>
}
)";

TEST_F(InterpreterTest, RepeatsIterateWithParametersOfTheirOwn) {
  Interpreter interpreter = parse(layers);
  TensorMap inputs{{"x", tensor({2}, {1, 10})}}, states;
  states["layers.0.block.gain"] = tensor({2}, {2, 1});
  states["layers.1.block.gain"] = tensor({2}, {3, 1});
  states["layers.2.block.gain"] = tensor({2}, {5, 7});
  StatusOr<TensorMap> outputs = interpreter.run("model", inputs, states);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)["y"].values, (std::vector<double>{30, 70}));
  EXPECT_EQ((*outputs)["auxiliary/balance"].values, std::vector<double>{6});
  EXPECT_EQ((*outputs)["seen/layers.1.block"].values, (std::vector<double>{6, 10}));
}

TEST_F(InterpreterTest, InitialNormalsAreTheRuntimesDraws) {
  parse(layers);
  TensorMap states = initialStates(*module, 7);
  ASSERT_EQ(states.size(), 3u);
  PhiloxStream stream(7, streamKey("layers.2.block.gain"));
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(states["layers.2.block.gain"][i], static_cast<float>(0.5 * stream.normal(i)));
  std::vector<ParameterInfo> parameters = parametersOf(*module);
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[1].checkpoint, "h.1.gain");
  EXPECT_FALSE(parameters[1].decay); // a vector
}

/// Two experts, one choice a token: token 0 prefers expert 1, token 1 expert 0, token 2 expert 1.
TEST_F(InterpreterTest, ExpertsUseTheirOwnStackedParameters) {
  Interpreter interpreter = parse(R"(
sluice.graph @model(%l: tensor<3x2xf32>, %x: tensor<3x1xf32>) {
  %r, %g, %p = sluice.route %l {top_k = 1 : i64, score = "sigmoid", renormalize = false} : (tensor<3x2xf32>)
      -> (!sluice.routing<experts = 2, top_k = 1, tokens = "3">, tensor<3x1xf32>, tensor<3x2xf32>)
  %rows = sluice.dispatch %x by %r : (tensor<3x1xf32>, !sluice.routing<experts = 2, top_k = 1, tokens = "3">) -> tensor<3x1xf32>
  %y = sluice.experts by %r : !sluice.routing<experts = 2, top_k = 1, tokens = "3"> (%row = %rows) : (tensor<3x1xf32>) -> tensor<3x1xf32> {
    %w = sluice.param "w" init #sluice.normal<1.0> role "expert" : tensor<1x1xf32>
    %z = sluice.linear %row, %w : (tensor<3x1xf32>, tensor<1x1xf32>) -> tensor<3x1xf32>
    sluice.yield %z : tensor<3x1xf32>
  }
  %c = sluice.combine %y by %r : (tensor<3x1xf32>, !sluice.routing<experts = 2, top_k = 1, tokens = "3">) -> tensor<3x1xf32>
  sluice.return %r, %c ["routing", "c"] : !sluice.routing<experts = 2, top_k = 1, tokens = "3">, tensor<3x1xf32>
}
)");
  TensorMap states{{"w", tensor({2, 1, 1}, {10, 100})}};
  TensorMap inputs{{"l", tensor({3, 2}, {0, 1, 3, 2, -1, 0})}, {"x", tensor({3, 1}, {1, 2, 3})}};
  StatusOr<TensorMap> outputs = interpreter.run("model", inputs, states);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  // ids, row of each slot, slot of each row, offsets.
  EXPECT_EQ((*outputs)["routing"].values, (std::vector<double>{1, 0, 1, 1, 0, 2, 1, 0, 2, 0, 1, 3}));
  EXPECT_EQ((*outputs)["c"].values, (std::vector<double>{100, 20, 300}));
  EXPECT_EQ(parametersOf(*module)[0].experts, 2);
  EXPECT_EQ(parametersOf(*module)[0].active, 1);

  // All rows on one expert, and none on the other.
  inputs["l"] = tensor({3, 2}, {5, 1, 5, 1, 5, 5});
  outputs = interpreter.run("model", inputs, states);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)["c"].values, (std::vector<double>{10, 20, 30}));
}

TEST_F(InterpreterTest, StatesAreReadWrittenAndAccumulated) {
  Interpreter interpreter = parse(R"(
sluice.state @w : tensor<2xf32> init #sluice.fill<3.0> role "parameter" of "w" kind "norm" checkpoint "w" decay false experts 0 active 0
sluice.state @w.gradient : tensor<2xf32> init #sluice.fill<0.0> role "gradient" of "w" kind "norm" checkpoint "" decay false experts 0 active 0
sluice.graph @accumulate(%x: tensor<2xf32>) {
  %w = sluice.read @w : tensor<2xf32>
  %y = sluice.add %w, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  sluice.accumulate @w.gradient, %y : tensor<2xf32>
  sluice.write @w, %x : tensor<2xf32>
  sluice.return %y ["y"] : tensor<2xf32>
}
)");
  TensorMap states = initialStates(*module, 1), inputs{{"x", tensor({2}, {1, 2})}};
  EXPECT_EQ(states["w"].values, (std::vector<double>{3, 3}));
  ASSERT_TRUE(interpreter.run("accumulate", inputs, states).ok());
  ASSERT_TRUE(interpreter.run("accumulate", inputs, states).ok());
  EXPECT_EQ(states["w"].values, (std::vector<double>{1, 2}));
  EXPECT_EQ(states["w.gradient"].values, (std::vector<double>{4 + 2, 5 + 4}));
}

TEST_F(InterpreterTest, ObserverSeesEveryOpOfTheBody) {
  std::vector<std::string> seen;
  InterpreterOptions options;
  options.observe = [&](Operation *op, llvm::ArrayRef<const HostTensor *> results) {
    seen.push_back(op->getName().stripDialect().str() + " " + std::to_string(results.size()));
  };
  Interpreter interpreter = parse(R"(
sluice.graph @g(%x: tensor<2xf32>) {
  %y = sluice.scale %x {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  sluice.return %y ["y"] : tensor<2xf32>
}
)",
                                  options);
  TensorMap states;
  ASSERT_TRUE(interpreter.run("g", {{"x", tensor({2}, {1, 2})}}, states).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"scale 1", "return 0"}));
}

TEST_F(InterpreterTest, MessagesNameOpAndPlace) {
  Interpreter interpreter = parse(layers);
  TensorMap states;
  auto message = [&](llvm::StringRef graph, const TensorMap &inputs) {
    StatusOr<TensorMap> outputs = interpreter.run(graph, inputs, states);
    EXPECT_FALSE(outputs.ok());
    return std::string(outputs.status().message());
  };
  TensorMap inputs{{"x", tensor({2}, {1, 2})}};
  EXPECT_NE(message("other", inputs).find("it has @model"), std::string::npos);
  EXPECT_NE(message("model", {}).find("needs the input 'x' of shape [2]"), std::string::npos);
  EXPECT_NE(message("model", {{"x", tensor({3}, {1, 2, 3})}}).find("must be [2], found [3]"),
            std::string::npos);
  EXPECT_NE(message("model", inputs).find("in layers.block: needs the state 'layers.0.block.gain'"),
            std::string::npos);
  states["layers.0.block.gain"] = tensor({3}, {1, 2, 3});
  EXPECT_NE(message("model", inputs).find("state 'layers.0.block.gain' must be [2], found [3]"),
            std::string::npos);

  interpreter = parse(R"(
sluice.graph @g(%l: tensor<1x3xf32>, %t: tensor<1xi32>) {
  %y = sluice.cross_entropy %l, %t {sluice.origin = #sluice.origin<"loss", -1, "loss", "forward">} : (tensor<1x3xf32>, tensor<1xi32>) -> tensor<f32>
  sluice.return %y ["y"] : tensor<f32>
}
)");
  EXPECT_NE(message("g", {{"l", tensor({1, 3}, {1, 2, 3})}, {"t", tensor({1}, {3})}})
                .find("'sluice.cross_entropy' op in loss: target 3 of token 0 is not in 0 .. 2"),
            std::string::npos);

  interpreter = parse(R"(
sluice.graph @g(%x: tensor<?xf32, #sluice.dims<batch>>) {
  %y = sluice.scale %x {factor = 2.0 : f64} : (tensor<?xf32, #sluice.dims<batch>>) -> tensor<?xf32, #sluice.dims<batch>>
  sluice.return %y ["y"] : tensor<?xf32, #sluice.dims<batch>>
}
)");
  EXPECT_NE(message("g", {{"x", tensor({2}, {1, 2})}}).find("bind them to numbers first"), std::string::npos);
}

} // namespace
} // namespace sluice
