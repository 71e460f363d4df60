// Every phase keeps the meaning: random graphs, run by the interpreter after each phase, must give the same
// outputs and gradients. A failure prints the smallest graph that still fails.
#include "tests/passes/RandomGraph.h"

#include "dialects/interpreter/Interpreter.h"
#include "dialects/plan/Plan.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

using namespace mlir;

namespace sluice::test {
namespace {

constexpr double limit = 1e-12;

// For the search by hand: SLUICE_GRAPHS=5000 tries more seeds, SLUICE_LAST_PHASE=fuse-experts stops early.
int64_t graphCount() {
  const char *text = std::getenv("SLUICE_GRAPHS");
  return text ? std::atoll(text) : 240;
}
Phase lastPhase() {
  const char *text = std::getenv("SLUICE_LAST_PHASE");
  return text ? phaseByName(text).value() : Phase::Plan;
}

double magnitudeOf(const HostTensor &tensor) {
  double magnitude = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    magnitude = std::max(magnitude, std::abs(tensor[i]));
  return magnitude;
}

/// Largest difference over `magnitude`; infinity if shapes differ. Agreeing infinities and NaN count as
/// equal.
double distance(const HostTensor &a, const HostTensor &b, double magnitude) {
  if (a.shape != b.shape)
    return INFINITY;
  double difference = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    double here = std::abs(a[i] - b[i]);
    difference = std::isnan(here) ? INFINITY : std::max(difference, here);
  }
  return difference / std::max(magnitude, 1e-300);
}

class Checker {
public:
  Checker() {
    DialectRegistry registry;
    registry.insert<SluiceDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
    handler.emplace(&context, [this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        messages += diagnostic.str() + "\n";
      return success();
    });
  }

  /// Empty if all phases agree; else what went wrong first. `derivatives`: also against central differences.
  std::string check(const Recipe &recipe, int64_t budget, bool derivatives) {
    messages.clear();
    module = buildModule(context, recipe);
    if (failed(verify(*module)))
      return "the graph does not verify: " + messages;
    options.bindings = "batch=" + std::to_string(recipe.batch) + ",seq=" + std::to_string(recipe.seq);
    options.saveBudget = budget;
    makeInputs(recipe);
    TensorMap reference, gradients;
    for (const PhaseInfo &info : phases()) {
      if (info.phase == Phase::Parse || info.phase > lastPhase())
        continue;
      planned = info.phase == Phase::Plan;
      std::string failure = runPhase(info.phase);
      if (failure.empty())
        failure = checkPhase(info.phase, reference, gradients, derivatives);
      if (!failure.empty())
        return "after " + info.name.str() + ": " + failure;
    }
    return "";
  }

  std::string text(const Recipe &recipe) {
    std::string printed;
    llvm::raw_string_ostream(printed) << *buildModule(context, recipe);
    return printed;
  }

private:
  std::string runPhase(Phase phase) {
    PassManager manager(&context);
    addPhase(manager, phase, options);
    if (failed(manager.run(*module)))
      return "the phase failed: " + messages;
    return "";
  }

  void makeInputs(const Recipe &recipe) {
    std::mt19937_64 engine(static_cast<uint64_t>(recipe.batch * 100 + recipe.seq));
    HostTensor tokens({recipe.batch, recipe.seq}), targets({recipe.batch, recipe.seq});
    for (int64_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<double>(engine() % static_cast<uint64_t>(recipe.vocabulary));
      targets[i] =
          i % 4 == 3 ? -100.0 : static_cast<double>(engine() % static_cast<uint64_t>(recipe.vocabulary));
    }
    inputs = {{"tokens", tokens}, {"targets", targets}};
  }

  /// The outputs of a graph; states are fresh, and come back through `states`.
  std::string interpret(StringRef graph, const TensorMap &given, TensorMap &states, TensorMap &outputs) {
    InterpreterOptions interpreterOptions;
    interpreterOptions.simulateArenas = planned;
    auto result = Interpreter(*module, interpreterOptions).run(graph, given, states);
    if (!result.ok())
      return "@" + graph.str() + ": " + std::string(result.status().message()) + messages;
    outputs = *result;
    return "";
  }

  /// Relative to each tensor's own magnitude, or, if `whole`, to that of the largest: a gradient is one
  /// vector, and parts of it that are zero but for rounding have no magnitude of their own.
  std::string compare(const TensorMap &expected, const TensorMap &found, bool (*wanted)(StringRef),
                      bool whole = false) {
    double largest = 0;
    for (const auto &[name, tensor] : expected)
      if (wanted(name))
        largest = std::max(largest, magnitudeOf(tensor));
    for (const auto &[name, tensor] : expected) {
      if (!wanted(name))
        continue;
      auto other = found.find(name);
      if (other == found.end())
        return "'" + name + "' is missing";
      if (double d = distance(tensor, other->second, whole ? largest : magnitudeOf(tensor)); !(d <= limit))
        return "'" + name + "' differs by " + std::to_string(d * 1e12) + "e-12";
    }
    return "";
  }

  std::string checkPhase(Phase phase, TensorMap &reference, TensorMap &gradients, bool derivatives) {
    TensorMap states = initialStates(*module, 7), outputs;
    const bool trained = phase >= Phase::Differentiate;
    std::string failure = interpret(trained ? "accumulate" : "model", inputs, states, outputs);
    if (!failure.empty())
      return failure;
    if (phase == Phase::Bind)
      reference = outputs;
    // The entry point has no logits; @logits has, for one sequence.
    failure = trained ? compare(reference, outputs, [](StringRef name) { return name != "logits"; })
                      : compare(reference, outputs, [](StringRef) { return true; });
    if (failure.empty())
      failure = checkLogits(reference);
    if (!failure.empty() || !trained)
      return failure;

    TensorMap evaluated, evalStates = initialStates(*module, 7);
    failure = interpret("eval", inputs, evalStates, evaluated);
    if (failure.empty())
      failure = compare(reference, evaluated,
                        [](StringRef name) { return name != "logits" && !name.starts_with("auxiliary/"); });
    if (!failure.empty())
      return "eval: " + failure;

    if (phase == Phase::Differentiate) {
      gradients = states;
      return derivatives ? checkDerivatives(gradients) : "";
    }
    return compare(gradients, states, [](StringRef name) { return name.ends_with(".gradient"); }, true);
  }

  std::string checkLogits(const TensorMap &reference) {
    const HostTensor &tokens = inputs.at("tokens");
    HostTensor first({1, tokens.shape[1]});
    std::copy_n(tokens.values.begin(), first.size(), first.values.begin());
    TensorMap outputs, states = initialStates(*module, 7), given{{"tokens", first}};
    HostTensor targets({1, tokens.shape[1]}, -100.0);
    given["targets"] = targets; // until flatten the graph may still ask for them
    if (std::string failure = interpret("logits", given, states, outputs); !failure.empty())
      return failure;
    const HostTensor &all = reference.at("logits");
    HostTensor expected({1, all.shape[1], all.shape[2]});
    std::copy_n(all.values.begin(), expected.size(), expected.values.begin());
    return compare({{"logits", expected}}, outputs, [](StringRef) { return true; });
  }

  /// loss_sum + sum of weight * tokens * auxiliary loss, at these parameters.
  double objective(TensorMap states) {
    TensorMap outputs;
    if (!interpret("accumulate", inputs, states, outputs).empty())
      return NAN;
    double value = outputs.at("loss_sum")[0];
    auto weights = module->getOperation()->getAttrOfType<DictionaryAttr>("sluice.auxiliary_weights");
    for (NamedAttribute weight : weights)
      value += cast<FloatAttr>(weight.getValue()).getValueAsDouble() * outputs.at("tokens")[0] *
               outputs.at("auxiliary/" + weight.getName().str())[0];
    return value;
  }

  /// The derivative along random directions in all parameters at once, against central differences.
  std::string checkDerivatives(const TensorMap &gradients) {
    std::mt19937_64 engine(3);
    std::normal_distribution<double> normal;
    for (int trial = 0; trial < 2; ++trial) {
      constexpr double step = 1e-5;
      TensorMap up = initialStates(*module, 7), down = up;
      double expected = 0, size = 0;
      for (auto &[name, tensor] : up) {
        auto gradient = gradients.find(name + ".gradient");
        if (gradient == gradients.end())
          continue;
        for (int64_t i = 0; i < tensor.size(); ++i) {
          double direction = normal(engine);
          expected += direction * gradient->second[i];
          size += std::abs(direction * gradient->second[i]);
          tensor[i] += step * direction;
          down.at(name)[i] -= step * direction;
        }
      }
      double found = (objective(up) - objective(down)) / (2 * step);
      if (!(std::abs(found - expected) <= 1e-6 * std::max(1.0, size)))
        return "gradient: central differences give " + std::to_string(found) + ", the adjoint " +
               std::to_string(expected);
    }
    return "";
  }

  MLIRContext context;
  std::optional<ScopedDiagnosticHandler> handler;
  std::string messages;
  OwningOpRef<ModuleOp> module;
  PipelineOptions options;
  TensorMap inputs;
  bool planned = false; // then the interpreter also checks the memory plan
};

TEST(RandomGraph, everyPhaseKeepsOutputsAndGradients) {
  Checker checker;
  for (int64_t seed = 0; seed < graphCount(); ++seed) {
    Recipe recipe = randomRecipe(static_cast<uint64_t>(seed));
    // No budget, an impossible one (everything cheap is computed again), one in between.
    const int64_t budget = std::array<int64_t, 3>{0, 1, 2000}[seed % 3];
    const bool derivatives = seed % 8 == 0;
    std::string failure = checker.check(recipe, budget, derivatives);
    if (failure.empty())
      continue;
    // The reduced graph must fail in the same phase, or it would lead astray.
    const std::string phase = failure.substr(0, failure.find(':'));
    Recipe small = reduce(
        recipe, [&](const Recipe &r) { return checker.check(r, budget, derivatives).starts_with(phase); });
    FAIL() << "seed " << seed << ", budget " << budget << "\n"
           << checker.check(small, budget, derivatives) << "\nsmallest failing graph, batch " << small.batch
           << ", seq " << small.seq << ":\n"
           << checker.text(small);
  }
}

bool hasKind(const std::vector<Step> &steps, Step::Kind kind) {
  for (const Step &step : steps)
    if (step.kind == kind || hasKind(step.body, kind))
      return true;
  return false;
}

TEST(RandomGraph, theReducerLeavesTheCulpritOnly) {
  int64_t tried = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Recipe recipe = randomRecipe(seed);
    if (!hasKind(recipe.steps, Step::Softmax))
      continue;
    Recipe small = reduce(recipe, [](const Recipe &r) { return hasKind(r.steps, Step::Softmax); });
    EXPECT_EQ(stepCount(small), 1) << "seed " << seed;
    EXPECT_EQ(small.batch * small.seq * small.width, 1) << "seed " << seed;
    ++tried;
  }
  EXPECT_GT(tried, 5);
}

} // namespace
} // namespace sluice::test
