// models/paper2 against the study's formulas (arXiv 2506.12119, section 3) and the figures computed from its
// tables.
#include "dialects/ledger/Ledger.h"
#include "frontends/cli/Compiler.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

StatusOr<Ledger> ledgerOf(const std::string &spec, Phase phase = Phase::Bind) {
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel model,
                          compiler.load(std::string(SLUICE_SOURCE_DIR) + "/models/paper2/" + spec + ".yaml"));
  CompilerOptions options;
  options.bindings = "batch=1,seq=2048";
  SLUICE_RETURN_IF_ERROR(compiler.run(model, phase, options));
  return makeLedger(*model.module);
}

/// The study's N and N_a leave out tables, norms and router.
Count studied(const Ledger &ledger, Count nonEmbedding) {
  auto role = [&](const char *name) {
    auto found = ledger.parameters.byRole.find(name);
    return found == ledger.parameters.byRole.end() ? Count(0) : found->second;
  };
  return nonEmbedding - role("norm") - role("router");
}

/// A row of Tables 10 and 12: experts, chosen, their width, and the shared expert's.
struct Row {
  const char *spec;
  Count experts, chosen, width, shared;
};

TEST(Paper2, RowsHaveTheParametersOfTheFormulas) {
  struct Size {
    Count layers, width, ffn;
    std::vector<Row> rows;
  };
  for (const Size &size : {Size{16,
                                1408,
                                3904,
                                {{"moe-2b-e89-k1", 89, 1, 352, 352},
                                 {"moe-2b-e88-k2", 88, 2, 352, 704},
                                 {"moe-2b-e86-k4", 86, 4, 352, 1408},
                                 {"moe-2b-e85-k5", 85, 5, 352, 1760},
                                 {"moe-2b-e93-k6", 93, 6, 320, 1920},
                                 {"moe-2b-e84-k6", 84, 6, 352, 2112},
                                 {"moe-2b-e92-k7", 92, 7, 320, 2240},
                                 {"moe-2b-e8-k1", 8, 1, 3528, 3528},
                                 {"moe-2b-e84-k15", 84, 15, 320, 4800},
                                 {"moe-2b-e8-k2", 8, 2, 3176, 6352},
                                 {"moe-2b-e84-k26", 84, 26, 288, 7488},
                                 {"moe-2b-e8-k3", 8, 3, 2888, 8664}}},
                           Size{24,
                                2048,
                                5464,
                                {{"moe-7b-e83-k1", 83, 1, 512, 512},
                                 {"moe-7b-e82-k2", 82, 2, 512, 1024},
                                 {"moe-7b-e81-k3", 81, 3, 512, 1536},
                                 {"moe-7b-e80-k4", 80, 4, 512, 2048},
                                 {"moe-7b-e78-k6", 78, 6, 512, 3072},
                                 {"moe-7b-e86-k10", 86, 10, 448, 4480},
                                 {"moe-7b-e84-k12", 84, 12, 448, 5376},
                                 {"moe-7b-e84-k28", 84, 28, 384, 10752}}},
                           Size{24, 1408, 3904, {{"moe-3b-e84-k6", 84, 6, 352, 2112}}}})
    for (const Row &row : size.rows) {
      SCOPED_TRACE(row.spec);
      StatusOr<Ledger> ledger = ledgerOf(row.spec);
      ASSERT_TRUE(ledger.ok()) << ledger.status();
      // (4) and (5) with their D_m^2 multiplied out: attention 4 d^2, gated MLPs 3 d f.
      const Count d = size.width, sparse = size.layers - 1;
      const Count rest = 4 * d * d * size.layers + 3 * d * size.ffn;
      EXPECT_EQ(toDecimal(studied(*ledger, ledger->parameters.nonEmbedding)),
                toDecimal(rest + sparse * 3 * d * (row.shared + row.experts * row.width)));
      EXPECT_EQ(toDecimal(studied(*ledger, ledger->parameters.activeNonEmbedding)),
                toDecimal(rest + sparse * 3 * d * (row.shared + row.chosen * row.width)));
      EXPECT_EQ(toDecimal(ledger->parameters.byRole["router"]), toDecimal(sparse * row.experts * d));
      EXPECT_EQ(toDecimal(ledger->parameters.total - ledger->parameters.nonEmbedding),
                toDecimal(2 * 65536 * d));
    }
}

TEST(Paper2, TheBestRowsAsPublished) {
  // N and N_a in millions, the activation rate in percent as printed (with the router).
  struct Published {
    const char *spec;
    double n, active, router, rate;
  };
  for (const Published &row : {Published{"moe-2b-e92-k7", 2150.6, 427.2, 1.94, 19.94},
                               {"moe-7b-e78-k6", 6513.8, 1304.4, 3.67, 20.07}}) {
    StatusOr<Ledger> ledger = ledgerOf(row.spec);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    const auto n = static_cast<double>(studied(*ledger, ledger->parameters.nonEmbedding)) / 1e6;
    const auto active = static_cast<double>(studied(*ledger, ledger->parameters.activeNonEmbedding)) / 1e6;
    const auto router = static_cast<double>(ledger->parameters.byRole["router"]) / 1e6;
    EXPECT_NEAR(n, row.n, 0.05);
    EXPECT_NEAR(active, row.active, 0.05);
    EXPECT_NEAR(router, row.router, 0.005);
    EXPECT_NEAR(100 * (active + router) / (n + router), row.rate, 0.005);
  }
}

TEST(Paper2, TrainingComputeOfATokenAsPublished) {
  // Three forward passes with full attention and router, without the head; the combine is no contraction.
  for (auto [spec, published, unit] : {std::tuple{"moe-2b-e92-k7", 3.129e9, 1e6},
                                       {"moe-7b-e78-k6", 9.057e9, 1e6},
                                       {"dense-2b", 1.4383e10, 1e6},
                                       {"dense-3b", 2.2374e10, 1e6},
                                       {"dense-7b", 4.2077e10, 1e6}}) {
    StatusOr<Ledger> ledger = ledgerOf(spec);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    const LedgerSum sum =
        ledger->sum([](const LedgerRow &row) { return row.direction == "forward" && row.role != "head"; });
    EXPECT_NEAR(3 * static_cast<double>(sum.fullAttention.contraction) / 2048, published, unit / 2) << spec;
  }
}

TEST(Paper2, LayerSchemes) {
  // Layers with experts, by the parameters of their routers.
  for (auto [spec, sparse] : {std::pair{"moe-2b-e92-k7", 15u},
                              {"scheme-first-dense-no-shared", 15u},
                              {"scheme-full", 16u},
                              {"scheme-interleave", 8u},
                              {"scheme-interleave-no-shared", 8u}}) {
    StatusOr<Ledger> ledger = ledgerOf(spec);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    EXPECT_EQ(toDecimal(ledger->parameters.byRole["router"]), toDecimal(Count(sparse) * 92 * 1408)) << spec;
    const bool shared = std::string(spec).find("no-shared") == std::string::npos;
    EXPECT_EQ(toDecimal(ledger->parameters.byRole["shared"]),
              toDecimal(shared ? Count(sparse) * 3 * 1408 * 2240 : 0));
    EXPECT_EQ(toDecimal(ledger->parameters.byRole["mlp"]), toDecimal(Count(16 - sparse) * 3 * 1408 * 3904));
  }
  // The routers of "interleave" stand in the second, fourth, ... layer.
  StatusOr<Ledger> ledger = ledgerOf("scheme-interleave");
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  for (int layer = 0; layer < 16; ++layer)
    EXPECT_EQ(ledger->parameters.byPath.count("layers." + std::to_string(layer) + ".moe.router"), layer % 2)
        << layer;
}

} // namespace
} // namespace sluice::cli
