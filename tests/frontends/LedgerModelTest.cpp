// The counts of whole models against published integers and closed forms.
#include "dialects/ledger/Ledger.h"
#include "frontends/cli/Compiler.h"

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

TEST(LedgerOfModels, JsonHasTheFixedKeys) {
  StatusOr<Ledger> ledger = ledgerOf("paper1/moe-4x-top2.yaml", "batch=8,seq=256", Phase::Differentiate);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  nlohmann::json json = nlohmann::json::parse(ledgerJson(*ledger));
  EXPECT_EQ(json["parameters"]["total"], "21057792");
  EXPECT_EQ(json["parameters"]["active"], "14766336");
  EXPECT_EQ(json["flops"]["forward"]["ideal"], "61551411200");
  EXPECT_EQ(json["flops"]["training"]["ideal"], "184654233600");
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

TEST(LedgerOfModels, NoPhaseChangesAnIdealContraction) {
  StatusOr<Ledger> first = ledgerOf("paper1/moe-4x-top2.yaml", "batch=2,seq=16", Phase::Differentiate);
  ASSERT_TRUE(first.ok()) << first.status();
  for (Phase phase : {Phase::FuseExperts, Phase::FormKernels, Phase::Plan}) {
    StatusOr<Ledger> later = ledgerOf("paper1/moe-4x-top2.yaml", "batch=2,seq=16", phase);
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_EQ(toDecimal(first->forward().counts.ideal.contraction),
              toDecimal(later->forward().counts.ideal.contraction))
        << phaseName(phase).str();
    EXPECT_EQ(toDecimal(first->training().counts.ideal.contraction),
              toDecimal(later->training().counts.ideal.contraction))
        << phaseName(phase).str();
  }
}

} // namespace
} // namespace sluice::cli
