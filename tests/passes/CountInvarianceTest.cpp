// No phase changes an ideal count, and running a graph does what the ledger says: random graphs after every
// phase.
#include "tests/passes/RandomGraph.h"

#include "dialects/interpreter/Interpreter.h"
#include "dialects/ledger/Ledger.h"
#include "dialects/plan/Plan.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace sluice::test {
namespace {

/// Sums of ideal counts that no phase may change: all classes of a graph and direction; contractions also by
/// module.
using Sums = std::map<std::string, ClassCounts>;

Sums idealSums(const Ledger &ledger) {
  Sums sums;
  for (const LedgerRow &row : ledger.rows) {
    if (row.direction == "recompute" || row.counts.ideal == ClassCounts())
      continue;
    sums[row.graph + " " + row.direction] += row.counts.ideal;
    if (row.counts.ideal.contraction != 0)
      sums[row.graph + " " + row.direction + " " + row.path].contraction += row.counts.ideal.contraction;
  }
  return sums;
}

std::string text(const ClassCounts &counts) {
  std::string line;
  for (const CountClass &countClass : countClasses)
    line += std::string(countClass.name) + " " + toDecimal(counts.*countClass.member) + "  ";
  return line;
}

class CountInvariance : public testing::Test {
protected:
  CountInvariance() {
    DialectRegistry registry;
    registry.insert<SluiceDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
  }

  void load(uint64_t seed) {
    recipe = randomRecipe(seed);
    module = buildModule(context, recipe);
    options.bindings = "batch=" + std::to_string(recipe.batch) + ",seq=" + std::to_string(recipe.seq);
    options.saveBudget = std::array<int64_t, 3>{0, 1, 2000}[seed % 3];
  }

  void runPhase(Phase phase) {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
      return mlir::failure(diagnostic.getSeverity() == DiagnosticSeverity::Error);
    });
    PassManager manager(&context);
    addPhase(manager, phase, options);
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }

  /// Every op's tally against its count, and all tallies against the ledger's rows of the graph.
  void checkCounting(const Ledger &ledger, const std::string &graph) {
    TensorMap states = initialStates(*module, 7), inputs;
    for (auto op : module->getOps<GraphOp>())
      if (op.getSymName() == graph)
        inputs = drawInputs(op);
    ClassCounts tallied, expected;
    InterpreterOptions interpreterOptions;
    interpreterOptions.count = [&](Operation *op, const ClassCounts &tally) {
      OpCounts counts = cast<Countable>(op).count();
      ClassCounts all = counts.ideal;
      all += counts.recompute;
      EXPECT_EQ(text(tally), text(all)) << op->getName().getStringRef().str();
      tallied += tally;
    };
    auto result = Interpreter(*module, interpreterOptions).run(graph, inputs, states);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const LedgerRow &row : ledger.rows)
      if (row.graph == graph) {
        expected += row.counts.ideal;
        expected += row.counts.recompute;
      }
    EXPECT_EQ(text(tallied), text(expected)) << "@" << graph;
  }

  TensorMap drawInputs(GraphOp graph) {
    std::mt19937_64 engine(3);
    TensorMap inputs;
    for (auto [name, argument] : llvm::zip(graph.getInputNames(), graph.getBlock()->getArguments())) {
      HostTensor tensor(cast<RankedTensorType>(argument.getType()).getShape());
      std::string key = cast<StringAttr>(name).getValue().str();
      const bool ids = key == "tokens" && tensor.shape.size() == 2;
      for (double &value : tensor.values)
        value = ids || key == "targets"
                    ? static_cast<double>(engine() % static_cast<uint64_t>(recipe.vocabulary))
                    : 1.0;
      inputs[key] = std::move(tensor);
    }
    return inputs;
  }

  MLIRContext context;
  Recipe recipe;
  OwningOpRef<ModuleOp> module;
  PipelineOptions options;
};

TEST_F(CountInvariance, NoPhaseChangesAnIdealCountOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    load(seed);
    Sums forward, all;
    for (const PhaseInfo &info : phases()) {
      if (info.phase == Phase::Parse)
        continue;
      SCOPED_TRACE("after " + info.name.str());
      ASSERT_NO_FATAL_FAILURE(runPhase(info.phase));
      if (info.phase < Phase::Flatten)
        continue;
      StatusOr<Ledger> ledger = makeLedger(*module);
      ASSERT_TRUE(ledger.ok()) << ledger.status();
      Sums sums = idealSums(*ledger);
      if (info.phase == Phase::Flatten)
        forward = sums;
      else if (info.phase == Phase::Differentiate) {
        EXPECT_EQ(text(sums["accumulate forward"]), text(forward["model forward"]));
        all = sums;
      } else {
        for (const auto &[key, counts] : all)
          EXPECT_EQ(text(sums[key]), text(counts)) << key;
        EXPECT_EQ(sums.size(), all.size());
      }
      if (HasFailure())
        return;
    }
  }
}

TEST_F(CountInvariance, RunningAGraphDoesWhatItsLedgerSays) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    load(seed);
    for (const PhaseInfo &info : phases()) {
      if (info.phase == Phase::Parse)
        continue;
      SCOPED_TRACE("after " + info.name.str());
      ASSERT_NO_FATAL_FAILURE(runPhase(info.phase));
      if (info.phase < Phase::Flatten)
        continue;
      StatusOr<Ledger> ledger = makeLedger(*module);
      ASSERT_TRUE(ledger.ok()) << ledger.status();
      std::vector<std::string> graphs;
      if (info.phase == Phase::Flatten)
        graphs = {"model"};
      else if (info.phase == Phase::Differentiate || info.phase == Phase::Plan)
        graphs = {"accumulate", "apply", "eval", "init", "logits"};
      else
        graphs = {"accumulate"};
      for (const std::string &graph : graphs)
        ASSERT_NO_FATAL_FAILURE(checkCounting(*ledger, graph));
      if (HasFailure())
        return;
    }
  }
}

} // namespace
} // namespace sluice::test
