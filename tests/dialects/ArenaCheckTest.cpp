// Simulated arenas: planned graphs that are right, and each way to be wrong.
#include "dialects/interpreter/ArenaCheck.h"
#include "dialects/interpreter/Interpreter.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace sluice {
namespace {

/// Three commands, a = 2 x, b = 2 a, c = a + b, whose results live at byte offsets of one arena; x lives in
/// `io`.
struct Plan {
  int64_t a = 0, b = 128, c = 256;
  std::string after1 = "[0]", after2 = "[0, 1]";
  int64_t bytes = 384;

  std::string text() const {
    auto slot = [](int64_t offset) { return "#plan.slot<\"activations\", " + std::to_string(offset) + ">"; };
    const std::string t = "tensor<32xf32>";
    auto scale = [&](const std::string &result, int number, const std::string &input, const std::string &from,
                     int64_t to, const std::string &after) {
      return "%" + result + " = plan.command " + std::to_string(number) + " \"launch\" {} (%" + input +
             ") from [" + from + "] to [" + slot(to) + "] states [] after " + after + " : (" + t + ") -> (" +
             t + ") (%v: " + t + ") {\n%w = sluice.scale %v {factor = 2.0 : f64} : (" + t + ") -> " + t +
             "\nsluice.yield %w : " + t + "\n}\n";
    };
    return "plan.arena @activations " + std::to_string(bytes) + " lifetime \"activations\"\n" +
           "plan.arena @io 128 lifetime \"io\"\n" + "sluice.graph @g(%x: " + t +
           ") attributes {plan.input_slots = [#plan.slot<\"io\", 0>], plan.output_slots = [" + slot(c) +
           "]} {\n" + scale("a", 0, "x", "#plan.slot<\"io\", 0>", a, "[]") +
           scale("b", 1, "a", slot(a), b, after1) + "%c = plan.command 2 \"launch\" {} (%a, %b) from [" +
           slot(a) + ", " + slot(b) + "] to [" + slot(c) + "] states [] after " + after2 + " : (" + t + ", " +
           t + ") -> (" + t + ") (%v: " + t + ", %u: " + t + ") {\n%w = sluice.add %v, %u : (" + t + ", " +
           t + ") -> " + t + "\nsluice.yield %w : " + t + "\n}\n" + "sluice.return %c [\"c\"] : " + t +
           "\n}\n";
  }
};

/// The message of a plan, empty if it is right; values are checked on the way.
std::string run(const Plan &plan) {
  MLIRContext context;
  context.loadDialect<SluiceDialect, plan::PlanDialect>();
  auto module = parseSourceString<ModuleOp>(plan.text(), &context);
  EXPECT_TRUE(module) << plan.text();
  if (!module)
    return "does not parse";
  InterpreterOptions options;
  options.simulateArenas = true;
  TensorMap states;
  StatusOr<TensorMap> outputs =
      Interpreter(*module, options).run("g", {{"x", HostTensor({32}, 1.5)}}, states);
  if (!outputs.ok())
    return std::string(outputs.status().message());
  EXPECT_EQ((*outputs)["c"].values, std::vector<double>(32, 9.0));
  return "";
}

void expectMessage(const Plan &plan, const std::string &part) {
  std::string message = run(plan);
  EXPECT_NE(message.find(part), std::string::npos) << "found: " << message;
}

TEST(ArenaCheckTest, AGoodPlanRuns) {
  EXPECT_EQ(run(Plan()), "");
  Plan inPlace;
  inPlace.c = inPlace.a; // exactly over a dying operand
  EXPECT_EQ(run(inPlace), "");
}

TEST(ArenaCheckTest, AnOverwrittenValueIsNamedWithItsOverwriter) {
  Plan plan;
  plan.b = plan.a;
  expectMessage(plan, "reads result 0 of command 0 (launch)");
  expectMessage(plan, "was overwritten by result 0 of command 1 (launch)");
}

TEST(ArenaCheckTest, PartlyInPlaceIsWrong) {
  Plan plan; // a holds bytes 0 .. 128
  plan.c = 64;
  expectMessage(
      plan, "reads result 0 of command 0 (launch) and writes result 0 of command 2 (launch) partly over it");
}

TEST(ArenaCheckTest, SlotsLieInsideOfTheirArena) {
  Plan plan;
  plan.bytes = 256;
  expectMessage(plan, "lie inside of arena 'activations' of 256 bytes");
}

TEST(ArenaCheckTest, DependenciesAreNeeded) {
  Plan plan;
  plan.after1 = "[]";
  expectMessage(plan, "without depending on command 0, which writes it");
  Plan transitive; // 2 waits for 1, which waits for 0
  transitive.after2 = "[1]";
  EXPECT_EQ(run(transitive), "");
}

} // namespace
} // namespace sluice
