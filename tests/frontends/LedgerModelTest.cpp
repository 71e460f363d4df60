// The counts of whole models against published integers and closed forms.
#include "dialects/ledger/LedgerReport.h"
#include "dialects/sluice/Sluice.h"
#include "frontends/cli/Compiler.h"
#include "frontends/cli/LedgerFile.h"
#include "frontends/cli/StatsUnits.h"
#include "runtime/support/File.h"
#include "tests/frontends/JsonSchema.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace sluice::cli {
namespace {

StatusOr<Ledger> ledgerOf(const std::string &spec, const std::string &bindings, Phase phase) {
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel model,
                          compiler.load(std::string(SLUICE_SOURCE_DIR) + "/models/" + spec));
  CompilerOptions options;
  options.bindings = bindings;
  SLUICE_RETURN_IF_ERROR(compiler.run(model, phase, options));
  return makeLedger(*model.module);
}

/// The ledger of a spec written here: width 8, 2 layers, 4 heads over 2, vocabulary 11 (the tiny graphs of
/// the reference), with `rest` under `model:`.
StatusOr<Ledger> tinyLedger(const std::string &rest, Phase phase, bool causal = true) {
  const std::string path = testing::TempDir() + "/tiny.yaml";
  SLUICE_RETURN_IF_ERROR(writeFile(path, "model:\n  vocabulary: 11\n  width: 8\n  layers: 2\n  heads: 4\n"
                                         "  kv_heads: 2\n" +
                                             rest + "train:\n  batch: 2\n  seq: 5\n"));
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(path));
  if (!causal)
    model.module->walk([](AttentionOp op) { op.setCausal(false); });
  SLUICE_RETURN_IF_ERROR(compiler.run(model, phase, {}));
  return makeLedger(*model.module);
}

TEST(LedgerOfModels, Paper1MoeMatchesTheStudy) {
  StatusOr<Ledger> ledger = ledgerOf("paper1/moe-4x-top2.yaml", "batch=8,seq=256", Phase::Differentiate);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_EQ(toDecimal(ledger->parameters.total), "21057792");
  EXPECT_EQ(toDecimal(ledger->parameters.active), "14766336");
  EXPECT_EQ(toDecimal(ledger->forward().counts.ideal.contraction), "61551411200");
  EXPECT_EQ(toDecimal(ledger->training().counts.ideal.contraction), "184654233600");
  EXPECT_EQ(toDecimal(ledger->forward().fullAttention.contraction), "62620958720");
  EXPECT_EQ(toDecimal(ledger->training().fullAttention.contraction), "187862876160");
}

TEST(LedgerOfModels, TinyGraphsOfTheReference) {
  // Counted by scalar loops (oracle "tiny_dense_gqa_causal", "tiny_dense_gqa_full").
  StatusOr<Ledger> causal = tinyLedger("  ffn: 12\n", Phase::Differentiate);
  ASSERT_TRUE(causal.ok()) << causal.status();
  EXPECT_EQ(causal->forward().counts.ideal.contraction, 22880u);
  EXPECT_EQ(causal->forward().fullAttention.contraction, 24160u);
  StatusOr<Ledger> full = tinyLedger("  ffn: 12\n", Phase::Differentiate, /*causal=*/false);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->forward().counts.ideal.contraction, 24160u);
  EXPECT_EQ(full->training().counts.ideal.contraction, 3u * 24160);
}

TEST(LedgerOfModels, AllExpertsCostADenseLayerTheRouterAndTheCombine) {
  StatusOr<Ledger> moe =
      tinyLedger("  moe:\n    experts: 4\n    top_k: 4\n    ffn: 6\n", Phase::Differentiate);
  StatusOr<Ledger> dense = tinyLedger("  ffn: 24\n", Phase::Differentiate);
  ASSERT_TRUE(moe.ok()) << moe.status();
  ASSERT_TRUE(dense.ok()) << dense.status();
  const Count router = 2 * 2 * 10 * 8 * 4; // layers, multiply-add, tokens, width, experts
  EXPECT_EQ(moe->forward().counts.ideal.contraction, dense->forward().counts.ideal.contraction + router);
  EXPECT_EQ(moe->training().counts.ideal.contraction,
            dense->training().counts.ideal.contraction + 3 * router);
  EXPECT_EQ(moe->forward().counts.dense.contraction, dense->forward().counts.dense.contraction + router);
  LedgerSum combine =
      moe->sum([](const LedgerRow &row) { return row.op == "combine" && row.direction == "forward"; });
  EXPECT_EQ(combine.counts.ideal.multiply, 2u * 10 * 4 * 8);
  EXPECT_EQ(combine.counts.ideal.add, 2u * 10 * 3 * 8);
  EXPECT_EQ(moe->parameters.total, moe->parameters.active);
  EXPECT_EQ(moe->parameters.withoutRouter().total, dense->parameters.total);
  EXPECT_EQ(moe->parameters.router(), 2u * 4 * 8);
}

TEST(LedgerOfModels, ParametersByRole) {
  StatusOr<Ledger> ledger = tinyLedger("  ffn: 12\n  tied: false\n  attention_bias: true\n  mlp_bias: true\n",
                                       Phase::Differentiate);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const std::map<std::string, Count> expected = {
      {"embedding", 88}, {"position", 0}, {"head", 88},  {"attention", 2 * 192},  {"mlp", 2 * 3 * 96},
      {"expert", 0},     {"shared", 0},   {"router", 0}, {"norm", 2 * 2 * 8 + 8}, {"bias", 2 * (24 + 32)}};
  EXPECT_EQ(ledger->parameters.byRole, expected);
}

TEST(LedgerOfModels, GroupingsAgreeOnARealModel) {
  StatusOr<Ledger> ledger = ledgerOf("paper1/moe-4x-top2.yaml", "batch=2,seq=16", Phase::Plan);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const LedgerEntry whole = moduleTree(*ledger, true).total;
  EXPECT_EQ(whole.contractions(), ledger->training().counts.ideal.contraction);
  EXPECT_EQ(whole.parameters, ledger->parameters.total);
  EXPECT_EQ(whole.active, ledger->parameters.active);
  for (LedgerKey key : {LedgerKey::Op, LedgerKey::Layer, LedgerKey::Module, LedgerKey::Role}) {
    LedgerEntry total;
    for (const LedgerEntry &entry : ledgerTable(*ledger, key))
      total += entry;
    EXPECT_TRUE(total.forward == whole.forward);
    EXPECT_TRUE(total.backward == whole.backward);
    EXPECT_TRUE(total.recompute == whole.recompute);
  }
}

TEST(LedgerOfModels, JsonFollowsItsSchemaAndReadsBack) {
  StatusOr<std::string> text = readFile(std::string(SLUICE_SOURCE_DIR) + "/docs/ledger.schema.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json schema = nlohmann::json::parse(*text);
  for (Phase phase : {Phase::Bind, Phase::Differentiate, Phase::Plan}) {
    SCOPED_TRACE(phaseName(phase).str());
    StatusOr<Ledger> ledger = ledgerOf("paper1/moe-4x-top2.yaml", "batch=8,seq=256", phase);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    const std::string written = ledgerJson(*ledger);
    const nlohmann::json json = nlohmann::json::parse(written);
    EXPECT_EQ(test::schemaViolations(schema, json), std::vector<std::string>());
    EXPECT_EQ(json["parameters"]["total"], "21057792");
    EXPECT_EQ(json["parameters"]["active"], "14766336");
    EXPECT_EQ(json["parameters"]["without_router"]["active"], std::to_string(14766336 - 4 * 4 * 256));
    EXPECT_EQ(json["flops"]["forward"]["ideal"], "61551411200");
    EXPECT_EQ(json["flops"]["mask_update"]["ideal"], "0");
    EXPECT_EQ(json["flops"].contains("backward"), phase != Phase::Bind);
    if (phase != Phase::Bind) {
      EXPECT_EQ(json["flops"]["training"]["ideal"], "184654233600");
    }
    StatusOr<Ledger> read = ledgerFromJson(written, "here");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(ledgerJson(*read), written);
    EXPECT_EQ(ledgerText(*read), ledgerText(*ledger));
  }
  // The checker itself sees what is wrong.
  nlohmann::json wrong = nlohmann::json::parse(ledgerJson(Ledger()));
  const size_t roles = 2 * parameterRoles.size();
  EXPECT_EQ(test::schemaViolations(schema, wrong).size(), roles) << "an empty ledger has none";
  wrong["parameters"]["total"] = 5;
  wrong["flops"]["forward"]["ideal"] = "05";
  wrong["extra"] = 1;
  EXPECT_EQ(test::schemaViolations(schema, wrong).size(), roles + 3);
}

TEST(LedgerOfModels, FiguresPerUnit) {
  StatusOr<Ledger> ledger = ledgerOf("paper1/moe-4x-top2.yaml", "batch=8,seq=256", Phase::Differentiate);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const Count micro = ledger->training().counts.ideal.contraction; // 2,048 tokens; a step has 16,384
  auto training = [&](const std::string &per) {
    StatusOr<LedgerScale> scale = parseScale(per, *ledger);
    EXPECT_TRUE(scale.ok()) << scale.status();
    return scale->training(micro);
  };
  EXPECT_EQ(training(""), 184654233600u);
  EXPECT_EQ(training("sequence"), 184654233600u / 8);
  EXPECT_EQ(training("token"), 184654233600u / 2048);
  EXPECT_EQ(training("step"), 184654233600u * 8);
  // 184654233600 / 2048 = 90163200 a token.
  EXPECT_EQ(toDecimal(training("run=2Btok")), "180326400000000000");
  EXPECT_EQ(toDecimal(training("run=9_000T")), "811468800000000000000000");
  StatusOr<LedgerScale> run = parseScale("run=2B", *ledger);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->optimizer(1), 122071u) << "2e9 / 16384, rounded up";
  for (const char *wrong : {"epoch", "run=", "run=lots", "run"})
    EXPECT_EQ(exitCode(parseScale(wrong, *ledger).status()), ExitCode::Usage) << wrong;
  EXPECT_EQ(exitCode(parseScale("token", Ledger()).status()), ExitCode::Usage);
}

TEST(LedgerOfModels, RatesOfAMachine) {
  StatusOr<MachineRates> machine = parseMachine("peak=0.5TFLOP/s,bandwidth=40GB/s");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_DOUBLE_EQ(machine->flops, 5e11);
  EXPECT_DOUBLE_EQ(machine->bandwidth, 4e10);
  for (const char *wrong : {"", "peak=5GFLOP/s", "peak=5,bandwidth=4GB/s", "peak=5GFLOP/s,bandwidth=4Gb/s",
                            "peak=-1GFLOP/s,bandwidth=4GB/s", "peak=1GFLOP/s,peak=2GFLOP/s", "speed=1GB/s"})
    EXPECT_EQ(exitCode(parseMachine(wrong).status()), ExitCode::Usage) << wrong;
}

TEST(LedgerOfModels, DenseTwinsOfPaper1) {
  // total = V d + L (2 d^2 + 2 d kv + 3 d f + 2 d) + d, docs of models/paper1
  auto total = [](uint64_t ffn) -> uint64_t {
    uint64_t d = 256, kv = 128, layers = 4;
    return 30008 * d + layers * (2 * d * d + 2 * d * kv + 3 * d * ffn + 2 * d) + d;
  };
  for (uint64_t ffn : {2048u, 4096u}) {
    StatusOr<Ledger> ledger =
        ledgerOf("paper1/dense-" + std::to_string(ffn) + ".yaml", "batch=8,seq=256", Phase::Differentiate);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    EXPECT_EQ(ledger->parameters.total, total(ffn));
    EXPECT_EQ(ledger->parameters.active, total(ffn));
  }
}

TEST(LedgerOfModels, NoPhaseChangesAnIdealCount) {
  for (const char *spec :
       {"paper1/moe-4x-top2.yaml", "paper1/dense-2048.yaml", "paper1/top2-not-renormalized.yaml"}) {
    SCOPED_TRACE(spec);
    StatusOr<Ledger> first = ledgerOf(spec, "batch=2,seq=16", Phase::Differentiate);
    ASSERT_TRUE(first.ok()) << first.status();
    for (const PhaseInfo &info : phases()) {
      SCOPED_TRACE(info.name.str());
      if (info.phase == Phase::Parse)
        continue;
      StatusOr<Ledger> later = ledgerOf(spec, "batch=2,seq=16", info.phase);
      ASSERT_TRUE(later.ok()) << later.status();
      const LedgerSum forward = later->forward(), expected = first->forward();
      EXPECT_EQ(forward.counts.ideal.contraction, expected.counts.ideal.contraction);
      EXPECT_EQ(forward.counts.dense.contraction, expected.counts.dense.contraction);
      EXPECT_EQ(forward.fullAttention.contraction, expected.fullAttention.contraction);
      EXPECT_EQ(later->parameters.total, first->parameters.total);
      EXPECT_EQ(later->parameters.active, first->parameters.active);
      // Before *flatten* the sums over layers of the auxiliary losses, and their tokens, are no ops yet.
      if (info.phase >= Phase::Flatten) {
        EXPECT_TRUE(forward.counts.ideal == expected.counts.ideal);
        EXPECT_TRUE(forward.counts.dense == expected.counts.dense);
      }
      if (info.phase < Phase::Differentiate)
        continue;
      EXPECT_TRUE(later->backward().counts.ideal == first->backward().counts.ideal);
      EXPECT_TRUE(later->backward().counts.dense == first->backward().counts.dense);
      EXPECT_TRUE(later->optimizer().counts.ideal == first->optimizer().counts.ideal);
      EXPECT_TRUE(later->routing().counts.ideal == first->routing().counts.ideal);
    }
  }
}

} // namespace
} // namespace sluice::cli
