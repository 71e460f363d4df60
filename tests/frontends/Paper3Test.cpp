// models/paper3 against the tables and the recipe of the study (arXiv 2606.01155).
#include "dialects/ledger/Ledger.h"
#include "dialects/ledger/conventions/Convention.h"
#include "frontends/cli/Compiler.h"
#include "runtime/train/Masks.h"
#include "runtime/train/TrainingConfig.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

std::string pathOf(const std::string &spec) {
  return std::string(SLUICE_SOURCE_DIR) + "/models/paper3/" + spec + ".yaml";
}

/// A row of the study's table of models.
struct Size {
  const char *name;
  int64_t width, ffn, layers;
  double millions; // weights of the layers' matrices, as printed
  int64_t matrices() const { return layers * (4 * width * width + 3 * width * ffn); }
};
const Size sizes[] = {{"20m", 256, 688, 4, 3.16}, {"40m", 512, 1024, 8, 20.97}};

StatusOr<Executable> compiled(const std::string &spec, const std::vector<std::string> &settings = {}) {
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(pathOf(spec), settings));
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(model, {}));
  return parseExecutable(std::move(bytes), spec);
}

TEST(Paper3, SizesAndTheirConvention) {
  for (const Size &size : sizes)
    for (bool masked : {false, true}) {
      SCOPED_TRACE(testing::Message() << size.name << (masked ? " masked" : " dense"));
      Compiler compiler;
      StatusOr<LoadedModel> model =
          compiler.load(pathOf(std::string(size.name) + (masked ? "-set" : "-dense")));
      ASSERT_TRUE(model.ok()) << model.status();
      ASSERT_TRUE(compiler.run(*model, Phase::Differentiate, {}).ok());
      StatusOr<Ledger> ledger = makeLedger(*model->module);
      ASSERT_TRUE(ledger.ok()) << ledger.status();
      EXPECT_NEAR(static_cast<double>(size.matrices()) / 1e6, size.millions, 0.0050001);
      // Both tables are there, and norms; all else is matrices.
      EXPECT_EQ(toDecimal(ledger->parameters.nonEmbedding - ledger->parameters.byRole["norm"]),
                toDecimal(Count(size.matrices())));
      EXPECT_EQ(toDecimal(ledger->parameters.byRole["embedding"]), toDecimal(Count(32000 * size.width)));
      EXPECT_EQ(toDecimal(ledger->parameters.byRole["head"]), toDecimal(Count(32000 * size.width)));
      const int64_t zeros = masked ? size.matrices() / 16 * 15 : 0;
      EXPECT_EQ(toDecimal(ledger->parameters.total - ledger->parameters.nonzero), toDecimal(Count(zeros)));
      // N = (matrices and one table) x density, of the unmasked sizes.
      StatusOr<ConventionQuantities> quantities = quantitiesOf(*ledger, 2048, 256);
      ASSERT_TRUE(quantities.ok()) << quantities.status();
      const ConventionReport report = (*findConvention("2606.01155"))->report(*quantities);
      const Count unmasked = size.matrices() + 32000 * size.width;
      EXPECT_EQ(toDecimal(report.parameters), toDecimal(masked ? unmasked / 16 : unmasked));
      EXPECT_EQ(toDecimal(report.training), toDecimal(6 * report.parameters * 2048));
      EXPECT_EQ(report.figures.front().value, toDecimal(unmasked));
    }
}

TEST(Paper3, TheRecipe) {
  for (const Size &size : sizes) {
    SCOPED_TRACE(size.name);
    double rates[2];
    for (bool masked : {false, true}) {
      StatusOr<Executable> executable = compiled(std::string(size.name) + (masked ? "-set" : "-dense"));
      ASSERT_TRUE(executable.ok()) << executable.status();
      StatusOr<TrainingConfig> config = readTrainingConfig(executable->description.training, {});
      ASSERT_TRUE(config.ok()) << config.status();
      rates[masked] = config->learningRate;
      EXPECT_EQ(config->batchTokens, 512 * 256);
      const int64_t steps = config->stepsFor(config->tokens);
      EXPECT_EQ(steps, 4 * 4000) << "four epochs";
      EXPECT_EQ(config->mode, WindowMode::Document);
      EXPECT_EQ(config->uniqueWindows, 4000u * 512);
      EXPECT_TRUE(config->reshuffle);
      StatusOr<Schedule> schedule =
          Schedule::create(config->schedule, config->learningRate, steps, config->batchTokens);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_EQ(schedule->warmupSteps(), steps / 20);
      EXPECT_DOUBLE_EQ(schedule->rate(steps / 20), config->learningRate);
      EXPECT_NEAR(schedule->rate(steps), 0.1 * config->learningRate, 1e-12);
      const nlohmann::json optimizer = config->resolved["optimizer"];
      EXPECT_EQ(optimizer["beta1"], 0.9);
      EXPECT_EQ(optimizer["beta2"], 0.999);
      EXPECT_EQ(optimizer["epsilon"], 1e-8);
      EXPECT_EQ(optimizer["weight_decay"], 0);
      EXPECT_EQ(optimizer["clip"], 0);
      EXPECT_EQ(config->masks.moves, masked);
      if (!masked)
        continue;
      const MaskSchedule masks(config->masks, steps);
      EXPECT_FALSE(masks.isDue(99));
      EXPECT_TRUE(masks.isDue(100));
      EXPECT_TRUE(masks.isDue(steps)) << "to the end";
      EXPECT_FALSE(masks.needsDenseGradients(100)) << "random growth";
      // p_t = 0.005 + 0.0475 (1 + cos(pi t / T)) at quarters of the run, as the study's table has them.
      for (auto [quarter, share] : {std::pair{1, 0.086088}, {2, 0.0525}, {3, 0.018912}, {4, 0.005}})
        EXPECT_NEAR(static_cast<double>(masks.amount(steps / 4 * quarter)) * 1e-9, share, 5e-7);
      StatusOr<std::vector<ModelMask>> all = modelMasks(executable->description);
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_EQ(all->size(), static_cast<size_t>(7 * size.layers)) << "q, k, v, o, gate, up, down";
      for (const ModelMask &mask : *all) {
        EXPECT_EQ(mask.pattern.kept * 16, mask.pattern.size()) << mask.name;
        EXPECT_EQ(mask.patternName, "unstructured");
        EXPECT_NE(mask.age, nullptr) << "steps of its own for each weight";
        EXPECT_EQ(mask.restart, 5);
      }
      for (const Command &command : executable->description.entry("apply")->commands)
        if (command.kind == "masked_adamw") {
          EXPECT_EQ(command.numberOr("ramp", 0), 20);
        }
    }
    EXPECT_DOUBLE_EQ(rates[0], 1.95e-3);
    EXPECT_DOUBLE_EQ(rates[1], rates[0] * 16) << "divided by the density";
  }
}

TEST(Paper3, TheRatioOfAttentionToTheMlp) {
  // d_mlp = D (N_a + N_m) / (r N_a + N_m), d_attention = r d_mlp; each matrix rounds up.
  StatusOr<Executable> executable = compiled("20m-set-attention");
  ASSERT_TRUE(executable.ok()) << executable.status();
  const double attention = 4.0 * 256 * 256, mlp = 3.0 * 256 * 688, ratio = 2.5,
               density = (attention + mlp) / 16 / (ratio * attention + mlp);
  StatusOr<std::vector<ModelMask>> all = modelMasks(executable->description);
  ASSERT_TRUE(all.ok()) << all.status();
  for (const ModelMask &mask : *all) {
    const double own = mask.name.find(".attn.") != std::string::npos ? ratio * density : density;
    EXPECT_EQ(mask.pattern.kept, std::ceil(own * static_cast<double>(mask.pattern.size()))) << mask.name;
  }
}

} // namespace
} // namespace sluice::cli
