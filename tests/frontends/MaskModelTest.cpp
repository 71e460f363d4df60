// Masked models: counts against the reference's loop counts, meaning against the same model with weights
// times 0 or 1, densities against closed forms.
#include "tests/frontends/MaskModels.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace sluice::test {
namespace {

// ----- counts
// ----------------------------------------------------------------------------------------------------

TEST_F(MaskModel, TinyGraphsOfTheReference) {
  // Counted by scalar loops (oracle "tiny_masked50_causal", "tiny_masked37_causal").
  for (auto [density, flops, kept] :
       {std::tuple(Ratio{1, 2}, 13280, 480), std::tuple(Ratio{37, 100}, 10880, 360)}) {
    DecoderConfig config = tiny();
    config.sparsity = {uniform(density)};
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
    config.sparsity = {uniform({3, 10})};
    config.sparsity[0].gradual = true; // starts with every weight
    config.sparsity[0].targets = {"attention", config.moe ? "experts" : "mlp"};
    Ledger masked = ledgerOf(*build(config, Phase::Plan));
    EXPECT_EQ(masked.training().counts.ideal.contraction, plain.training().counts.ideal.contraction);
    EXPECT_EQ(masked.training().counts.dense.contraction, plain.training().counts.dense.contraction);
    EXPECT_EQ(masked.training().executed.contraction, plain.training().executed.contraction);
    EXPECT_EQ(masked.parameters.nonzero, plain.parameters.total);
  }
}

TEST_F(MaskModel, ExpertsAreMaskedOneByOne) {
  DecoderConfig config = tinyMoe();
  config.sparsity = {uniform({1, 4})};
  config.sparsity[0].targets = {"experts"};
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
    config.sparsity = {uniform({37, 100})};
    config.sparsity[0].targets = {"attention", config.moe ? "experts" : "mlp"};
    llvm::json::Object moves{{"method", "rigl"}, {"restart", 5}, {"ramp", 20}};
    OwningOpRef<ModuleOp> module = build(config, Phase::Plan, std::move(moves));
    TensorMap states = initialStates(*module, 3);
    const TensorMap update = {{"seed", scalar(3, {1})},
                              {"step", scalar(1, {1})},
                              {"amount", scalar(1e8, {1})},
                              {"removed", scalar(3e8, {1})}};
    for (const auto &[graph, inputs] : {std::pair<std::string, TensorMap>{"init", {{"seed", scalar(3, {1})}}},
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
  struct Case {
    DecoderConfig config;
    std::vector<std::string> targets;
    size_t masks;
  };
  // Experts with some masked matrices too: what has no mask may be fused, what has one must keep it.
  for (const Case &c : {Case{tiny(), {"attention", "mlp"}, 14},
                        {tinyMoe(), {"attention", "experts"}, 14},
                        {tinyMoe(), {"layers.*.moe.experts.w_down"}, 2},
                        {tinyMoe(), {"layers.*.moe.experts.w_gate"}, 2}}) {
    const DecoderConfig &config = c.config;
    SCOPED_TRACE(c.targets[0]);
    for (auto [phase, percent] : {std::pair(Phase::Differentiate, 25.0),
                                  {Phase::LowerMasks, 100.0},
                                  {Phase::Plan, 25.0},
                                  {Phase::Plan, 100.0}}) {
      breakEven = percent; // 100: kept form
      OwningOpRef<ModuleOp> plain = build(config, phase);
      DecoderConfig withMasks = config;
      withMasks.sparsity = {uniform({3, 10})};
      withMasks.sparsity[0].targets = c.targets;
      OwningOpRef<ModuleOp> masked = build(withMasks, phase);
      size_t keptForms = 0;
      for (StateOp state : masked->getOps<StateOp>())
        keptForms += state.getRole() == "parameter" && keptBy(state);
      EXPECT_EQ(keptForms, percent == 100 ? c.masks : 0);
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
      EXPECT_EQ(names.size(), c.masks);
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

TEST_F(MaskModel, TheKeptFormChangesNoIdealCount) {
  for (DecoderConfig config : {tiny(), tinyMoe()}) {
    config.sparsity = {uniform({3, 10})};
    config.sparsity[0].targets = {"attention", config.moe ? "experts" : "mlp"};
    breakEven = 25;
    Ledger whole = ledgerOf(*build(config, Phase::Differentiate));
    breakEven = 100;
    for (Phase phase : {Phase::LowerMasks, Phase::Plan}) {
      Ledger kept = ledgerOf(*build(config, phase));
      EXPECT_EQ(kept.training().counts.ideal, whole.training().counts.ideal);
      EXPECT_EQ(kept.training().counts.dense, whole.training().counts.dense);
      EXPECT_EQ(kept.optimizer().counts.ideal, whole.optimizer().counts.ideal);
      EXPECT_EQ(kept.parameters.total, whole.parameters.total);
      EXPECT_EQ(kept.parameters.nonzero, whole.parameters.nonzero);
      EXPECT_LT(kept.optimizer().executed.add, whole.optimizer().executed.add);
    }
  }
}

TEST_F(MaskModel, AMaskThatKeepsAllTrainsLikeNoMask) {
  for (DecoderConfig config : {tiny(), tinyMoe()}) {
    // Once planned, fused experts add in another order than the single ops of masked ones.
    const Phase phase = config.moe ? Phase::Differentiate : Phase::Plan;
    OwningOpRef<ModuleOp> plain = build(config, phase);
    config.sparsity = {uniform({3, 10})};
    config.sparsity[0].gradual = true; // starts with every weight
    config.sparsity[0].targets = {"attention", config.moe ? "experts" : "mlp"};
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
  config.sparsity = {uniform({1, 1})};
  build(config, Phase::Plan)->walk([](StateOp state) { EXPECT_NE(state.getRole(), "mask"); });
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
