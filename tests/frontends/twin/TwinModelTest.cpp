// Twins of real models: every candidate against its full ledger, worked examples of public models, the
// written spec; and the conventions of papers on graphs against the same on published dimensions.
#include "frontends/cli/ConventionStats.h"
#include "frontends/cli/ModelCounter.h"
#include "frontends/cli/TwinReport.h"
#include "frontends/twin/TwinFamily.h"
#include "frontends/twin/TwinSpec.h"
#include "tests/frontends/MoeConfigs.h"

#include "runtime/support/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

std::string modelPath(const std::string &name) {
  return std::string(SLUICE_SOURCE_DIR) + "/models/" + name;
}

/// A config.json of its own.
std::string writeConfig(const std::string &name, const Json &config) {
  std::string path = testing::TempDir() + "/" + name + ".json";
  EXPECT_TRUE(writeFile(path, config.dump()).ok());
  return path;
}

Json published(const char *table) {
  return Json::parse(*readFile(std::string(SLUICE_TEST_DATA) + "/accounting/oracle_params.json")).at(table);
}

ModelSource sourceOf(const std::string &path) {
  StatusOr<ModelSource> source = readModelSource(path, {});
  EXPECT_TRUE(source.ok()) << source.status();
  return std::move(*source);
}

TwinFamily familyOf(const ModelSource &source, const TwinRequest &request) {
  StatusOr<TwinFamily> family = TwinFamily::make(source.config, request);
  EXPECT_TRUE(family.ok()) << family.status();
  return std::move(*family);
}

/// A search whose counts come from the ledgers of graphs.
struct Searched {
  TwinFamily family;
  TwinAnswer answer;
  Count target = 0;
};

Searched search(const ModelSource &source, ModelCounter &counter, const TwinRequest &request,
                const std::string &match, Count target, Count tolerance, size_t keep = 100000) {
  TwinFamily family = familyOf(source, request);
  if (target == 0)
    target = matchedFigure(*counter.count(source.config, match == "flops"), match);
  TwinCount count = [&](const TwinPoint &point) -> StatusOr<Count> {
    SLUICE_ASSIGN_OR_RETURN(Ledger ledger, counter.count(family.at(point), match == "flops"));
    return matchedFigure(ledger, match);
  };
  StatusOr<CountPolynomial> polynomial = CountPolynomial::fit(family.variables(), count);
  EXPECT_TRUE(polynomial.ok()) << polynomial.status();
  TwinAnswer answer = searchTwins(family.variables(), *polynomial, target, tolerance, keep);
  return {std::move(family), std::move(answer), target};
}

/// Every point of a small grid by its full ledger: the search finds the same ones with the same counts.
TEST(TwinModels, EveryCandidateIsItsLedgers) {
  ModelSource source = sourceOf(modelPath("paper1/moe-4x-top2.yaml"));
  ModelCounter counter(source, "batch=2,seq=16");
  TwinRequest dense;
  dense.vary = {"width", "ffn"}, dense.multipleOf = 16;
  dense.ranges = {{"width", {224, 288, 0}}, {"ffn", {1952, 2160, 0}}};
  TwinRequest experts;
  experts.vary = {"experts", "layers"}, experts.multipleOf = 64;
  experts.ranges = {{"experts", {3, 5, 0}}, {"expert-ffn", {896, 1152, 0}}, {"layers", {3, 5, 0}}};
  for (const TwinRequest &request : {dense, experts}) {
    const std::vector<TwinVariable> variables = familyOf(source, request).variables();
    std::vector<TwinPoint> points = {{}};
    for (const TwinVariable &variable : variables) {
      std::vector<TwinPoint> longer;
      for (const TwinPoint &point : points)
        for (int64_t index = 0; index <= variable.last(); ++index) {
          longer.push_back(point);
          longer.back().push_back(variable.at(index));
        }
      points = std::move(longer);
    }
    EXPECT_GE(points.size(), 40u);
    std::map<TwinPoint, Ledger> ledgers;
    for (const TwinPoint &point : points) {
      StatusOr<Ledger> ledger = counter.count(familyOf(source, request).at(point), true);
      ASSERT_TRUE(ledger.ok()) << ledger.status();
      ledgers.emplace(point, std::move(*ledger));
    }
    for (const char *match : {"active", "total", "nonzero", "flops"}) {
      const Count target = matchedFigure(*counter.count(source.config, true), match), tolerance = target / 10;
      std::map<TwinPoint, Count> expected;
      for (const auto &[point, ledger] : ledgers) {
        Count count = matchedFigure(ledger, match);
        if ((count > target ? count - target : target - count) <= tolerance)
          expected[point] = count;
      }
      Searched found = search(source, counter, request, match, target, tolerance);
      ASSERT_EQ(found.answer.within.size(), expected.size()) << match;
      for (const TwinCandidate &candidate : found.answer.within)
        EXPECT_EQ(toDecimal(candidate.count), toDecimal(expected[candidate.point])) << match;
    }
  }
}

/// f* = (1/L) sum (k f_e + shared + E/3), rounded to a grid: worked examples of public models.
TEST(TwinModels, WidthExamplesOfPublicModels) {
  const Json examples = published("solver_width_examples");
  int rows = 0;
  for (const PublishedConfig &model : moeConfigs) {
    std::optional<ModelSource> source;
    std::optional<ModelCounter> counter;
    for (const Json &row : examples) {
      if (row["moe"] != model.name)
        continue;
      if (!source) {
        source.emplace(sourceOf(writeConfig("published", Json::parse(model.config))));
        counter.emplace(*source, "batch=1,seq=8");
      }
      const std::string match = row["match"] == "total" ? "total" : "active";
      for (const Json &width : row["uniform_width"]) {
        TwinRequest request;
        request.multipleOf = width["multiple"].get<int64_t>();
        Searched found = search(*source, *counter, request, match, 0, 0);
        EXPECT_EQ(toDecimal(found.target), std::to_string(row["target"].get<uint64_t>())) << model.name;
        ASSERT_FALSE(found.answer.nearest.empty());
        const TwinCandidate &best = found.answer.nearest[0];
        EXPECT_EQ(best.point[0], width["ffn"].get<int64_t>()) << model.name << " " << match;
        EXPECT_EQ(toDecimal(best.count), std::to_string(width["params"].get<uint64_t>())) << model.name;
        EXPECT_EQ(static_cast<int64_t>(residualOf(best.count, found.target)),
                  width["residual"].get<int64_t>());
        ++rows;
      }
    }
  }
  // Mixtral, OLMoE, Qwen1.5-MoE, Qwen3-30B and DeepSeek-V2-Lite; two targets and four grids each.
  EXPECT_EQ(rows, 40);
}

/// What TinyLlama and OLMoE cost a token, in full and causal exact: the budgets of the worked examples.
TEST(TwinModels, FlopsOfTheEqualComputeExamples) {
  const Json tinyLlama = {{"model_type", "llama"},    {"hidden_size", 2048},
                          {"num_hidden_layers", 22},  {"num_attention_heads", 32},
                          {"num_key_value_heads", 4}, {"intermediate_size", 5632},
                          {"vocab_size", 32000},      {"tie_word_embeddings", false}};
  const char *olmoe = nullptr;
  for (const PublishedConfig &model : moeConfigs)
    if (std::string(model.name) == "OLMoE-1B-7B-0924")
      olmoe = model.config;
  ASSERT_NE(olmoe, nullptr);
  ModelSource reference = sourceOf(writeConfig("tinyllama", tinyLlama)),
              candidate = sourceOf(writeConfig("olmoe", Json::parse(olmoe)));
  for (const Json &row : published("solver_isoflop_examples")) {
    const std::string attention = row["attention"];
    if (attention == "causal_half")
      continue; // no graph computes half of a square
    const Count length = row["T"].get<uint64_t>();
    for (auto [source, key] : {std::pair{&reference, "reference_flops_per_token"},
                               std::pair{&candidate, "candidate_flops_per_token"}}) {
      ModelCounter counter(*source, concat("batch=1,seq=", toDecimal(length)));
      StatusOr<Ledger> ledger = counter.count(source->config, true);
      ASSERT_TRUE(ledger.ok()) << ledger.status();
      LedgerSum training = ledger->training();
      const Count flops =
          attention == "full" ? training.fullAttention.contraction : training.counts.ideal.contraction;
      // OLMoE's router: its work is in the published figure too.
      EXPECT_EQ(toDecimal(flops), toDecimal(*parseLargeCount(row[key].get<std::string>(), key) * length))
          << key << " " << attention << " " << toDecimal(length);
    }
  }
}

/// The study's dense baseline is printed as 14.89M; three shapes are known to round to it.
TEST(TwinModels, Paper1sDenseBaselineAmongTheCandidates) {
  ModelSource source = sourceOf(modelPath("paper1/moe-4x-top2.yaml"));
  ModelCounter counter(source, "batch=1,seq=8");
  TwinRequest request;
  request.vary = {"width", "ffn"};
  Searched found = search(source, counter, request, "active", 14'890'000, 5'000);
  std::map<TwinPoint, std::string> known = {
      {{320, 1056}, "14889280"}, {{352, 672}, "14891360"}, {{256, 2088}, "14885120"}};
  for (const TwinCandidate &candidate : found.answer.within)
    if (auto match = known.find(candidate.point); match != known.end()) {
      EXPECT_EQ(toDecimal(candidate.count), match->second);
      known.erase(match);
    }
  EXPECT_TRUE(known.empty()) << known.size() << " of the three are missing";
}

/// Matching FLOPs includes attention: a wider model has more of it, and its MLP is narrower for it.
TEST(TwinModels, FlopsAreMatchedWithAttention) {
  ModelSource source = sourceOf(modelPath("paper1/dense-2048.yaml"));
  ModelCounter counter(source, "batch=2,seq=1024");
  TwinRequest request;
  request.vary = {"width", "ffn"};
  Searched found = search(source, counter, request, "flops", 0, 0);
  found = search(source, counter, request, "flops", found.target, found.target / 10000, 20);
  ASSERT_FALSE(found.answer.within.empty());
  for (const TwinCandidate &candidate : found.answer.within) {
    const Count d = static_cast<Count>(candidate.point[0]), f = static_cast<Count>(candidate.point[1]);
    const Count tokens = 2048, layers = 4, pairs = 1024 * 1025 / 2;
    const Count matrices = layers * (3 * d * d + 3 * d * f) + 30008 * d; // kv heads are half of the heads
    const Count flops = 3 * (2 * tokens * matrices + 4 * 2 * layers * pairs * d);
    EXPECT_EQ(toDecimal(candidate.count), toDecimal(flops))
        << candidate.point[0] << " " << candidate.point[1];
  }
}

TEST(TwinModels, TheWrittenSpecCountsTheSameAndKeepsTheRest) {
  ModelSource source = sourceOf(modelPath("paper1/moe-4x-top2.yaml"));
  ModelCounter counter(source, "");
  for (const char *vary : {"ffn", "width", "layers", "experts"}) {
    TwinRequest request;
    request.vary = {vary};
    Searched found = search(source, counter, request, "active", 0, 0);
    DecoderConfig twin = found.family.at(found.answer.nearest.at(0).point);
    std::string path = testing::TempDir() + "/twin-" + vary + ".yaml";
    ASSERT_TRUE(writeFile(path, twinSpec(twin, source.config, source.tree, {}, source.batch, source.sequence,
                                         "# twin\n"))
                    .ok());
    ModelSource written = sourceOf(path);
    Ledger ledger = *counter.count(written.config, true);
    EXPECT_EQ(toDecimal(matchedFigure(ledger, "active")), toDecimal(found.answer.nearest[0].count)) << vary;
    EXPECT_EQ(toDecimal(matchedFigure(ledger, "flops")),
              toDecimal(matchedFigure(*counter.count(twin, true), "flops")));
    // Everything that is not a size of the model stays: the training section but for the router's losses.
    for (const char *key : {"train", "batch_tokens", "tokens", "lr", "optimizer", "schedule", "data"}) {
      const llvm::json::Value *before = source.training.get(key), *after = written.training.get(key);
      ASSERT_EQ(before == nullptr, after == nullptr) << key;
      if (before)
        EXPECT_TRUE(*before == *after) << key;
    }
    EXPECT_EQ(written.config.moe.has_value(), std::string(vary) == "experts");
    EXPECT_EQ(written.config.balanceWeight, written.config.moe ? 0.01 : 0);
    EXPECT_EQ(written.config.vocabulary, 30008);
    EXPECT_EQ(written.config.kvHeads, 4);
  }
  // Without a spec, every key is written.
  const Json llama = {{"model_type", "llama"},       {"hidden_size", 64},        {"num_hidden_layers", 2},
                      {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"intermediate_size", 96},
                      {"vocab_size", 500},           {"head_dim", 24},           {"rms_norm_eps", 1e-5},
                      {"tie_word_embeddings", true}, {"attention_bias", true},   {"rope_theta", 500000.0}};
  ModelSource plain = sourceOf(writeConfig("llama", llama));
  std::string path = testing::TempDir() + "/plain.yaml";
  ASSERT_TRUE(writeFile(path, twinSpec(plain.config, plain.config, std::nullopt, {}, 3, 17, "")).ok());
  ModelSource again = sourceOf(path);
  ModelCounter both(plain, "batch=3,seq=17");
  for (const char *match : {"total", "active", "flops"})
    EXPECT_EQ(toDecimal(matchedFigure(*both.count(again.config, true), match)),
              toDecimal(matchedFigure(*both.count(plain.config, true), match)));
  EXPECT_EQ(again.config.headDim, 24);
  EXPECT_EQ(again.config.ropeTheta, 500000);
  EXPECT_EQ(again.batch, 3);
  EXPECT_EQ(again.sequence, 17);
}

TEST(TwinModels, RequestsThatMeanNothingAreNamed) {
  ModelSource source = sourceOf(modelPath("paper1/moe-4x-top2.yaml"));
  auto message = [&](const TwinRequest &request) {
    return std::string(TwinFamily::make(source.config, request).status().message());
  };
  TwinRequest request;
  request.vary = {"depth"};
  EXPECT_NE(message(request).find("found 'depth'"), std::string::npos) << message(request);
  request.vary = {"layer"};
  EXPECT_NE(message(request).find("did you mean 'layers'"), std::string::npos) << message(request);
  request.vary = {"experts", "ffn"};
  EXPECT_NE(message(request).find("expected ffn not beside it"), std::string::npos) << message(request);
  request.vary = {"ffn"};
  request.ranges = {{"width", {1, 100, 0}}};
  EXPECT_NE(message(request).find("'width' does not vary"), std::string::npos) << message(request);
  request.ranges = {{"ffn", {9, 15, 0}}};
  EXPECT_NE(message(request).find("multiple of 8"), std::string::npos) << message(request);
  request.vary = {"experts"};
  request.ranges = {{"experts", {1, 4, 1}}};
  EXPECT_NE(message(request).find("top_k = 2"), std::string::npos) << message(request);
}

/// A graph and the dimensions of its row say the same under every convention.
TEST(ConventionsOfModels, GraphsAgreeWithTheirDimensions) {
  auto check = [](const std::string &path, const std::string &bindings, const PublishedShape &dimensions) {
    Compiler compiler;
    StatusOr<LoadedModel> model = compiler.load(path);
    ASSERT_TRUE(model.ok()) << model.status();
    CompilerOptions options;
    options.bindings = bindings;
    ASSERT_TRUE(compiler.run(*model, Phase::Differentiate, options).ok());
    StatusOr<Ledger> ledger = makeLedger(*model->module);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    StatusOr<ConventionQuantities> graph =
        quantitiesOf(*ledger, ledger->batch * ledger->sequence, ledger->sequence);
    ASSERT_TRUE(graph.ok()) << graph.status();
    PublishedShape shape = dimensions;
    // The final norm, which the published formula of parameters leaves out.
    shape.parameters = 0;
    shape.parameters = static_cast<Count>(quantitiesOf(shape).total) + shape.width;
    ConventionQuantities row = quantitiesOf(shape);
    for (const Convention &convention : conventions()) {
      if (std::string(convention.name) == "exact")
        continue; // its backward is the graph's own
      ConventionReport fromGraph = convention.report(*graph), fromRow = convention.report(row);
      EXPECT_EQ(toDecimal(fromGraph.parameters), toDecimal(fromRow.parameters))
          << path << " " << convention.name;
      EXPECT_EQ(toDecimal(fromGraph.forward), toDecimal(fromRow.forward)) << path << " " << convention.name;
      EXPECT_EQ(toDecimal(fromGraph.training), toDecimal(fromRow.training)) << path << " " << convention.name;
      ASSERT_EQ(fromGraph.figures.size(), fromRow.figures.size());
      for (size_t i = 0; i < fromRow.figures.size(); ++i)
        EXPECT_EQ(fromGraph.figures[i].value, fromRow.figures[i].value) << fromRow.figures[i].key;
    }
  };
  PublishedShape paper1;
  paper1.layers = 4, paper1.width = 256, paper1.heads = 8, paper1.kvHeads = 4, paper1.headDim = 32;
  paper1.experts = 4, paper1.topK = 2, paper1.expertFfn = 1024, paper1.vocabulary = 30008, paper1.tied = true;
  paper1.sequence = 256, paper1.batch = 8;
  check(modelPath("paper1/moe-4x-top2.yaml"), "batch=8,seq=256", paper1);
  PublishedShape dense = paper1;
  dense.experts = dense.topK = dense.expertFfn = 0, dense.ffn = 2048, dense.sequence = 17, dense.batch = 3;
  check(modelPath("paper1/dense-2048.yaml"), "batch=3,seq=17", dense);

  // 2506.12119's optimum at 2B: one dense layer, a shared expert, ALiBi.
  PublishedShape optimum;
  optimum.layers = 16, optimum.width = 1408, optimum.heads = optimum.kvHeads = 11, optimum.headDim = 128;
  optimum.ffn = 3904, optimum.denseLayers = 1, optimum.experts = 92, optimum.topK = 7,
  optimum.expertFfn = 320;
  optimum.sharedFfn = 2240, optimum.vocabulary = 65536, optimum.sequence = 2048;
  check(modelPath("paper2/moe-2b-e92-k7.yaml"), "batch=1,seq=2048", optimum);

  // Llama-3-8B: the golden value of Megatron-Bridge from its graph, no weights needed.
  const Json llama3 = {
      {"model_type", "llama"},        {"hidden_size", 4096},      {"num_hidden_layers", 32},
      {"num_attention_heads", 32},    {"num_key_value_heads", 8}, {"intermediate_size", 14336},
      {"tie_word_embeddings", false}, {"vocab_size", 128256},     {"rms_norm_eps", 1e-5}};
  PublishedShape shape;
  shape.layers = 32, shape.width = 4096, shape.heads = 32, shape.kvHeads = 8, shape.headDim = 128;
  shape.ffn = 14336, shape.vocabulary = 128256, shape.sequence = 8192;
  EXPECT_EQ(toDecimal((*findConvention("megatron-bridge"))->report(quantitiesOf(shape)).training),
            "421645529382912");
  check(writeConfig("llama3", llama3), "batch=1,seq=8192", shape);
}

/// 2605.13769 as reconstructed: total and active with the router in both.
TEST(ConventionsOfModels, Paper1IsReconstructed) {
  ModelSource source = sourceOf(modelPath("paper1/moe-4x-top2.yaml"));
  ModelCounter counter(source, "");
  Ledger ledger = *counter.count(source.config, true);
  EXPECT_EQ(toDecimal(ledger.parameters.total), "21057792");
  EXPECT_EQ(toDecimal(ledger.parameters.active), "14766336");
  EXPECT_EQ(toDecimal(ledger.parameters.byRole["router"]), "4096");
  EXPECT_EQ(toDecimal(ledger.parameters.total - ledger.parameters.active), "6291456");
}

/// docs/accounting.md counts one model by hand: its table is what the graph says.
TEST(ConventionsOfModels, TheDocumentedExampleIsTrue) {
  StatusOr<std::string> page = readFile(std::string(SLUICE_SOURCE_DIR) + "/docs/accounting.md");
  ASSERT_TRUE(page.ok()) << page.status();
  Compiler compiler;
  StatusOr<LoadedModel> model = compiler.load(modelPath("paper1/moe-4x-top2.yaml"));
  ASSERT_TRUE(model.ok()) << model.status();
  CompilerOptions options;
  options.bindings = "batch=8,seq=256";
  ASSERT_TRUE(compiler.run(*model, Phase::Differentiate, options).ok());
  Ledger ledger = *makeLedger(*model->module);
  ConventionQuantities q = *quantitiesOf(ledger, 2048, 256);
  auto documented = [&](const std::string &text) {
    EXPECT_NE(page->find(text), std::string::npos) << "docs/accounting.md lacks: " << text;
  };
  for (const Convention &convention : conventions()) {
    ConventionReport report = convention.report(q);
    documented(concat(
        "| ", convention.name, " | ", groupedDigits(report.parameters), " | ", groupedDigits(report.training),
        " | ",
        absl::StrFormat("%.4f", static_cast<double>(report.training) / static_cast<double>(q.training)),
        " |"));
    documented(concat("| `", convention.name, "` |"));
  }
  for (Count part : {q.layers, q.router, q.head, q.attentionExact})
    documented("| " + groupedDigits(part) + " |");
  for (Count part : {q.attentionFull, q.scores, q.training})
    documented(groupedDigits(part));
  for (auto [role, size] : ledger.parameters.byRole)
    if (size > 0)
      documented("| " + groupedDigits(size) + " |");
  documented("**" + groupedDigits(ledger.parameters.total) + "**");
  documented("**" + groupedDigits(ledger.parameters.active) + "**");
}

} // namespace
} // namespace sluice::cli
