// Masked models: counts against the reference's loop counts, meaning against the same model with weights
// times 0 or 1, the update of masks against a plain reference, densities against closed forms.
#include "dialects/interpreter/Interpreter.h"
#include "dialects/ledger/Ledger.h"
#include "dialects/plan/Plan.h"
#include "dialects/sluice/Notation.h"
#include "frontends/decoder/BuildDecoder.h"
#include "passes/Pipeline.h"
#include "runtime/support/Philox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

#include <numeric>
#include <random>

using namespace mlir;

namespace sluice::test {
namespace {

class MaskModel : public testing::Test {
protected:
  MaskModel() {
    DialectRegistry registry;
    registry.insert<SluiceDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
  }

  /// The tiny graphs of the reference: d = 8, L = 2, H = 4, KV = 2, f = 12, V = 11, T = 5, B = 2.
  static DecoderConfig tiny() {
    DecoderConfig config;
    config.name = "tiny";
    config.vocabulary = 11, config.width = 8, config.layers = 2;
    config.heads = 4, config.kvHeads = 2, config.headDim = 2, config.ffn = 12;
    return config;
  }
  static DecoderConfig tinyMoe() {
    DecoderConfig config = tiny();
    config.ffn = 0;
    config.moe = MoeConfig();
    config.moe->experts = 4, config.moe->topK = 2, config.moe->ffn = 6;
    return config;
  }
  static Sparsity uniform(Ratio density) {
    Sparsity sparsity;
    sparsity.targets = {"attention", "mlp"};
    sparsity.density = density;
    return sparsity;
  }

  OwningOpRef<ModuleOp> build(const DecoderConfig &config, Phase to, llvm::json::Object sparsity = {}) {
    llvm::json::Object training{{"batch_tokens", 10}};
    if (!sparsity.empty())
      training["sparsity"] = std::move(sparsity);
    StatusOr<OwningOpRef<ModuleOp>> built = buildDecoder(context, config, training);
    EXPECT_TRUE(built.ok()) << built.status();
    if (!built.ok())
      return {};
    PipelineOptions options;
    options.bindings = "batch=2,seq=5";
    for (const PhaseInfo &info : phases()) {
      if (info.phase > to)
        break;
      PassManager manager(&context);
      addPhase(manager, info.phase, options);
      std::string errors;
      ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          errors += diagnostic.str();
        return success();
      });
      EXPECT_TRUE(succeeded(manager.run(**built))) << info.name.str() << ": " << errors;
    }
    return std::move(*built);
  }

  static Ledger ledgerOf(ModuleOp module) {
    StatusOr<Ledger> ledger = makeLedger(module);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return ledger.ok() ? *ledger : Ledger();
  }

  static HostTensor scalar(double value, llvm::ArrayRef<int64_t> shape = {}) {
    return HostTensor(shape, value);
  }
  static TensorMap batch() {
    HostTensor tokens({2, 5}), targets({2, 5});
    for (int64_t i = 0; i < 10; ++i)
      tokens[i] = static_cast<double>(i * 7 % 11), targets[i] = static_cast<double>((i * 3 + 1) % 11);
    return {{"tokens", tokens}, {"targets", targets}};
  }
  static TensorMap run(ModuleOp module, llvm::StringRef graph, const TensorMap &inputs, TensorMap &states) {
    StatusOr<TensorMap> outputs = Interpreter(module).run(graph, inputs, states);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *outputs : TensorMap();
  }
  static TensorMap applyInputs(double step) {
    return {{"learning_rate", scalar(1e-2)}, {"step", scalar(step)}, {"tokens", scalar(10)}};
  }

  MLIRContext context;
};

// ----- counts
// ----------------------------------------------------------------------------------------------------

TEST_F(MaskModel, TinyGraphsOfTheReference) {
  // Counted by scalar loops (oracle "tiny_masked50_causal", "tiny_masked37_causal").
  for (auto [density, flops, kept] :
       {std::tuple(Ratio{1, 2}, 13280, 480), std::tuple(Ratio{37, 100}, 10880, 360)}) {
    DecoderConfig config = tiny();
    config.sparsity = uniform(density);
    for (Phase phase : {Phase::Bind, Phase::Differentiate, Phase::Plan}) {
      Ledger ledger = ledgerOf(*build(config, phase));
      EXPECT_EQ(ledger.forward().counts.ideal.contraction, Count(flops));
      EXPECT_EQ(ledger.forward().counts.dense.contraction, 24160u); // and the full square
      // 960 masked weights in two layers: 2 (8 8 2 + 8 4 2 + 8 12 3) = 960.
      EXPECT_EQ(ledger.parameters.total - ledger.parameters.nonzero, Count(960 - kept));
      if (phase != Phase::Bind) {
        EXPECT_EQ(ledger.training().counts.ideal.contraction, Count(3 * flops));
        EXPECT_EQ(ledger.training().counts.dense.contraction, 3u * 24160);
        EXPECT_GE(ledger.training().executed.contraction, Count(3 * 22880));
      }
    }
  }
}

TEST_F(MaskModel, ADenseMaskCountsLikeNoMask) {
  for (DecoderConfig config : {tiny(), tinyMoe()}) {
    Ledger plain = ledgerOf(*build(config, Phase::Plan));
    config.sparsity = uniform({3, 10});
    config.sparsity->gradual = true; // starts with every weight
    config.sparsity->targets = {"attention", config.moe ? "experts" : "mlp"};
    Ledger masked = ledgerOf(*build(config, Phase::Plan));
    EXPECT_EQ(masked.training().counts.ideal.contraction, plain.training().counts.ideal.contraction);
    EXPECT_EQ(masked.training().counts.dense.contraction, plain.training().counts.dense.contraction);
    EXPECT_EQ(masked.training().executed.contraction, plain.training().executed.contraction);
    EXPECT_EQ(masked.parameters.nonzero, plain.parameters.total);
  }
}

TEST_F(MaskModel, ExpertsAreMaskedOneByOne) {
  DecoderConfig config = tinyMoe();
  config.sparsity = uniform({1, 4});
  config.sparsity->targets = {"experts"};
  Ledger ledger = ledgerOf(*build(config, Phase::Plan));
  // 2 layers x 4 experts x 3 matrices of 48 weights, of which 12 are kept.
  EXPECT_EQ(ledger.parameters.total - ledger.parameters.nonzero, 2u * 4 * 3 * 36);
  LedgerSum experts = ledger.sum(
      [](const LedgerRow &row) { return row.op == "grouped_linear" && row.direction == "forward"; });
  EXPECT_EQ(experts.counts.ideal.contraction, 2u * 2 * 20 * 3 * 12); // layers, multiply-add, rows, products
  EXPECT_EQ(experts.counts.dense.contraction, 2u * 2 * 10 * 4 * 3 * 48);
}

TEST_F(MaskModel, RunningDoesWhatTheLedgerSays) {
  for (DecoderConfig config : {tiny(), tinyMoe()}) {
    config.sparsity = uniform({37, 100});
    config.sparsity->targets = {"attention", config.moe ? "experts" : "mlp"};
    llvm::json::Object moves{{"method", "rigl"}, {"restart", 5}, {"ramp", 20}};
    OwningOpRef<ModuleOp> module = build(config, Phase::Plan, std::move(moves));
    TensorMap states = initialStates(*module, 3);
    const TensorMap update = {
        {"seed", scalar(3, {1})}, {"step", scalar(1, {1})}, {"amount", scalar(1e8, {1})}};
    for (auto [graph, inputs] : {std::pair<std::string, TensorMap>{"init", {{"seed", scalar(3, {1})}}},
                                 {"accumulate", batch()},
                                 {"accumulate_dense", batch()},
                                 {"apply", applyInputs(1)},
                                 {"update_topology", update}}) {
      ClassCounts counted, said;
      InterpreterOptions options;
      options.simulateArenas = true;
      options.count = [&](Operation *op, const ClassCounts &counts) {
        counted += counts;
        if (auto countable = dyn_cast<Countable>(op)) {
          OpCounts own = countable.count();
          said += own.ideal;
          said += own.recompute;
        }
      };
      StatusOr<TensorMap> outputs = Interpreter(*module, options).run(graph, inputs, states);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ(toDecimal(counted.contraction), toDecimal(said.contraction)) << graph;
      EXPECT_EQ(toDecimal(counted.elementwise()), toDecimal(said.elementwise())) << graph;
    }
  }
}

// ----- meaning
// ---------------------------------------------------------------------------------------------------

TEST_F(MaskModel, MeansTheSameModelWithWeightsTimesZeroOrOne) {
  for (DecoderConfig config : {tiny(), tinyMoe()}) {
    for (Phase phase : {Phase::Differentiate, Phase::Plan}) {
      OwningOpRef<ModuleOp> plain = build(config, phase);
      DecoderConfig withMasks = config;
      withMasks.sparsity = uniform({3, 10});
      withMasks.sparsity->targets = {"attention", config.moe ? "experts" : "mlp"};
      OwningOpRef<ModuleOp> masked = build(withMasks, phase);
      TensorMap states = initialStates(*masked, 5), dense = initialStates(*plain, 5);
      std::vector<std::string> names;
      for (const ParameterInfo &info : parametersOf(*masked)) {
        if (!info.mask)
          continue;
        names.push_back(info.name);
        const HostTensor &mask = states.at(maskName(info.name));
        EXPECT_EQ(std::accumulate(mask.values.begin(), mask.values.end(), 0.0),
                  static_cast<double>(info.mask.keptWeights()));
        for (int64_t i = 0; i < mask.size(); ++i) {
          EXPECT_EQ(states.at(info.name)[i], dense.at(info.name)[i] * mask[i]) << "initial " << info.name;
          dense.at(info.name)[i] *= mask[i];
        }
      }
      EXPECT_EQ(names.size(), 14u);
      TensorMap tokens = batch();
      EXPECT_EQ(run(*masked, "accumulate", tokens, states).at("loss_sum").values,
                run(*plain, "accumulate", tokens, dense).at("loss_sum").values);
      for (const std::string &name : names)
        for (int64_t i = 0; i < states.at(name).size(); ++i) {
          // Fused experts add in another order than single ops.
          const double expected = dense.at(name + ".gradient")[i] * states.at(maskName(name))[i];
          EXPECT_NEAR(states.at(name + ".gradient")[i], expected, 1e-13 * std::fabs(expected) + 1e-18)
              << name;
        }
      tokens.erase("targets");
      tokens.at("tokens") = HostTensor({1, 5}, 3);
      EXPECT_EQ(run(*masked, "logits", tokens, states).at("logits").values,
                run(*plain, "logits", tokens, dense).at("logits").values);
    }
  }
}

TEST_F(MaskModel, AMaskThatKeepsAllTrainsLikeNoMask) {
  for (DecoderConfig config : {tiny(), tinyMoe()}) {
    // Once planned, fused experts add in another order than the single ops of masked ones.
    const Phase phase = config.moe ? Phase::Differentiate : Phase::Plan;
    OwningOpRef<ModuleOp> plain = build(config, phase);
    config.sparsity = uniform({3, 10});
    config.sparsity->gradual = true; // starts with every weight
    config.sparsity->targets = {"attention", config.moe ? "experts" : "mlp"};
    OwningOpRef<ModuleOp> masked = build(config, phase);
    TensorMap states = initialStates(*masked, 9), dense = initialStates(*plain, 9);
    for (int step = 1; step <= 2; ++step) {
      EXPECT_EQ(run(*masked, "accumulate", batch(), states).at("loss_sum").values,
                run(*plain, "accumulate", batch(), dense).at("loss_sum").values);
      run(*masked, "apply", applyInputs(step), states);
      run(*plain, "apply", applyInputs(step), dense);
    }
    for (const auto &[name, value] : dense)
      EXPECT_EQ(states.at(name).values, value.values) << name;
  }
}

TEST_F(MaskModel, DensityOneIsNoMask) {
  DecoderConfig config = tiny();
  config.sparsity = uniform({1, 1});
  build(config, Phase::Plan)->walk([](StateOp state) { EXPECT_NE(state.getRole(), "mask"); });
}

// ----- moving masks
// ----------------------------------------------------------------------------------------------

/// The whole update of one matrix in plain words: which weights stay, and which come.
struct Reference {
  std::vector<bool> kept;
  std::vector<int64_t> added;

  /// Drops the `count` first of `order`.
  void drop(std::vector<std::pair<double, int64_t>> order, int64_t count) {
    std::sort(order.begin(), order.end());
    for (int64_t k = 0; k < count; ++k)
      kept[static_cast<size_t>(order[static_cast<size_t>(k)].second)] = false;
  }
  void grow(std::vector<std::pair<double, int64_t>> order, int64_t target) {
    std::sort(order.begin(), order.end());
    int64_t count = target - std::count(kept.begin(), kept.end(), true);
    for (int64_t k = 0; k < count; ++k) {
      kept[static_cast<size_t>(order[static_cast<size_t>(k)].second)] = true;
      added.push_back(order[static_cast<size_t>(k)].second);
    }
  }
};

struct MethodCase {
  const char *method, *drop;
};

TEST_F(MaskModel, UpdatesAgainstAPlainReference) {
  for (MethodCase method :
       {MethodCase{"set", "magnitude"}, {"set", "signed"}, {"rigl", "magnitude"}, {"gradual", "magnitude"}}) {
    SCOPED_TRACE(std::string(method.method) + " " + method.drop);
    const std::string name = method.method;
    DecoderConfig config = tinyMoe();
    config.sparsity = uniform({3, 10});
    config.sparsity->targets = {"attention", "experts"};
    config.sparsity->gradual = name == "gradual";
    OwningOpRef<ModuleOp> module = build(
        config, Phase::Plan,
        llvm::json::Object{{"method", method.method}, {"drop", method.drop}, {"restart", 5}, {"ramp", 20}});
    TensorMap states = initialStates(*module, 6);
    run(*module, "init", {{"seed", scalar(7, {1})}}, states);
    for (const auto &[state, value] : initialStates(*module, 7))
      ASSERT_EQ(states.at(state).values, value.values) << state;
    std::vector<ParameterInfo> parameters = parametersOf(*module);
    for (int64_t step = 1; step <= 5; ++step) {
      run(*module, name == "rigl" ? "accumulate_dense" : "accumulate", batch(), states);
      run(*module, "apply", applyInputs(static_cast<double>(step)), states);
      const TensorMap before = states;
      const int64_t amount = 123456789 * step;
      run(*module, "update_topology",
          {{"seed", scalar(7, {1})},
           {"step", scalar(static_cast<double>(step), {1})},
           {"amount", scalar(static_cast<double>(amount), {1})}},
          states);
      for (const ParameterInfo &info : parameters) {
        if (!info.mask)
          continue;
        const HostTensor &weight = before.at(info.name), &old = before.at(maskName(info.name)),
                         &mask = states.at(maskName(info.name));
        const PhiloxStream stream(7, streamKey(maskName(info.name)), static_cast<uint64_t>(step));
        const int64_t size = info.mask.matrixSize();
        for (int64_t first = 0; first < weight.size(); first += size) {
          Reference reference;
          std::vector<std::pair<double, int64_t>> all, below, others;
          for (int64_t i = 0; i < size; ++i) {
            reference.kept.push_back(old[first + i] != 0);
            if (!reference.kept.back())
              continue;
            const std::pair<double, int64_t> entry(std::fabs(weight[first + i]), i);
            all.push_back(entry);
            (weight[first + i] < 0 ? below : others).push_back(entry);
          }
          auto share = [&](size_t count) {
            return (static_cast<int64_t>(count) * amount + 999999999) / 1000000000;
          };
          int64_t target = info.mask.getKept();
          if (name == "gradual") { // 48 weights of an expert end at ceil(14.4) = 15, and so on
            const int64_t end = (size * 3 + 9) / 10;
            target = size - (size - end) * amount / 1000000000;
            reference.drop(all, static_cast<int64_t>(all.size()) - target);
          } else if (std::string(method.drop) == "signed") {
            reference.drop(below, share(below.size()));
            reference.drop(others, share(others.size()));
          } else {
            reference.drop(all, share(all.size()));
          }
          if (name != "gradual") {
            std::vector<std::pair<double, int64_t>> free;
            for (int64_t i = 0; i < size; ++i)
              if (!reference.kept[static_cast<size_t>(i)])
                free.emplace_back(name == "rigl"
                                      ? -std::fabs(before.at(info.name + ".dense_gradient")[first + i])
                                      : stream.bits(static_cast<uint64_t>(first + i)),
                                  i);
            reference.grow(free, target);
          }
          int64_t kept = 0;
          for (int64_t i = 0; i < size; ++i) {
            const int64_t at = first + i;
            const bool keeps = reference.kept[static_cast<size_t>(i)];
            const bool isNew = llvm::is_contained(reference.added, i);
            kept += mask[at] != 0;
            ASSERT_EQ(mask[at] != 0, keeps) << info.name << " " << at << " step " << step;
            for (const char *suffix : {"", ".exp_avg", ".exp_avg_sq"})
              ASSERT_EQ(states.at(info.name + suffix)[at],
                        keeps && !isNew ? before.at(info.name + suffix)[at] : 0.0)
                  << info.name << suffix << " " << at;
            ASSERT_EQ(states.at(info.name + ".age")[at],
                      !keeps ? 0.0 : (isNew ? 5.0 : before.at(info.name + ".age")[at]));
          }
          ASSERT_EQ(kept, target) << info.name;
        }
      }
    }
  }
}

// ----- densities
// -------------------------------------------------------------------------------------------------

TEST(Densities, AreRoundedInExactArithmetic) {
  // floor((1 - 0.9) x 10) = 1 weight is left out, whatever doubles say.
  Sparsity sparsity;
  sparsity.density = *parseDecimal("0.9");
  EXPECT_EQ(*keptWeights(sparsity, {{1, 10, 1, false}}), std::vector<int64_t>{9});
  sparsity.density = *parseDecimal("0.37");
  EXPECT_EQ(*keptWeights(sparsity, {{8, 8, 1, false}}), std::vector<int64_t>{24});
  sparsity.density = *parseDecimal("1e-3");
  EXPECT_EQ(*keptWeights(sparsity, {{1, 10, 1, false}}), std::vector<int64_t>{1});
  EXPECT_EQ(parseDecimal("0.0625")->denominator, 16);
  EXPECT_FALSE(parseDecimal("a tenth").has_value());
  EXPECT_FALSE(parseDecimal("-0.1").has_value());
  EXPECT_FALSE(parseDecimal("").has_value());
}

TEST(Densities, ErkInClosedForm) {
  // epsilon (in + out): 0.1 of 100 x 100 + 100 x 300 weights over 200 + 400 is 4000 / 600 a unit.
  Sparsity sparsity;
  sparsity.distribution = Distribution::Erk;
  sparsity.density = {1, 10};
  EXPECT_EQ(*keptWeights(sparsity, {{100, 100, 1, false}, {100, 300, 1, false}}),
            (std::vector<int64_t>{1334, 2667}));
  // 10 x 10 would keep more than it has: dense, and the other takes 0.5 x 10100 - 100 of its 10000.
  sparsity.density = {1, 2};
  EXPECT_EQ(*keptWeights(sparsity, {{10, 10, 1, false}, {100, 100, 1, false}}),
            (std::vector<int64_t>{100, 4950}));
}

TEST(Densities, AttentionToMlp) {
  // d_mlp = D (A + M) / (r A + M) = 0.1 x 400 / (2 x 100 + 300) = 0.08, attention twice that.
  Sparsity sparsity;
  sparsity.distribution = Distribution::AttentionToMlp;
  sparsity.attentionToMlp = {2, 1};
  sparsity.density = {1, 10};
  EXPECT_EQ(*keptWeights(sparsity, {{10, 10, 1, true}, {10, 30, 1, false}}), (std::vector<int64_t>{16, 24}));
  sparsity.density = {9, 10};
  EXPECT_FALSE(keptWeights(sparsity, {{10, 10, 1, true}, {10, 30, 1, false}}).ok());
}

} // namespace
} // namespace sluice::test
