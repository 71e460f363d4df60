// The conventions of papers against the numbers that the papers print: tables of Chinchilla, Megatron, PaLM,
// the golden values of training programs, the studies on equal resources and on repeated data.
#include "dialects/ledger/conventions/Convention.h"
#include "dialects/ledger/conventions/SparseTraining.h"

#include "runtime/support/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace sluice {
namespace {

using Json = nlohmann::json;

Json published(const char *table) {
  return Json::parse(*readFile(std::string(SLUICE_TEST_DATA) + "/accounting/oracle_params.json")).at(table);
}

ConventionReport reportOf(const char *name, const PublishedShape &shape) {
  return (*findConvention(name))->report(quantitiesOf(shape));
}

/// The training FLOPs of a shape, decimal.
std::string training(const char *name, const PublishedShape &shape) {
  return toDecimal(reportOf(name, shape).training);
}

std::string figure(const ConventionReport &report, const std::string &key) {
  for (const ConventionFigure &figure : report.figures)
    if (figure.key == key)
      return figure.value;
  return "no figure " + key;
}

/// `value` rounded to `digits` significant decimals equals the published number.
void expectPublished(double value, double printed, int digits) {
  double unit = std::pow(10, std::floor(std::log10(printed)) - digits + 1);
  EXPECT_NEAR(value, printed, unit / 2 * 1.0001) << value;
}

TEST(Conventions, NamesAreUniqueAndListed) {
  for (const char *name :
       {"exact", "6n", "palm", "megatron", "megatron-recompute", "megatron-bridge", "torchtitan",
        "chinchilla", "chinchilla-text", "kaplan", "nanogpt", "2506.12119", "2606.01155"}) {
    ASSERT_TRUE(findConvention(name).ok()) << name;
    EXPECT_EQ((*findConvention(name))->name, std::string(name));
    EXPECT_LE(std::string((*findConvention(name))->counts).size(), 78u) << "one line of 100 columns";
  }
  EXPECT_EQ(conventions().size(), 13u);
  std::string message(findConvention("chinchila").status().message());
  EXPECT_NE(message.find("found 'chinchila'"), std::string::npos) << message;
  EXPECT_NE(message.find("chinchilla-text"), std::string::npos) << message;
}

TEST(Conventions, ChinchillaTableA4) {
  for (const Json &row : published("chinchilla_table_A4")) {
    PublishedShape shape;
    shape.layers = row["num_layers"].get<uint64_t>(), shape.width = row["d_model"].get<uint64_t>();
    shape.heads = row["num_heads"].get<uint64_t>(), shape.headDim = row["kv_size"].get<uint64_t>();
    shape.ffn = row["ffw_size"].get<uint64_t>(), shape.vocabulary = row["vocab"].get<uint64_t>();
    shape.sequence = row["seq_len"].get<uint64_t>(), shape.gated = false, shape.tied = true;
    EXPECT_EQ(training("chinchilla", shape), row["train_flops_per_seq_layers_only"].get<std::string>());
    EXPECT_EQ(training("chinchilla-text", shape), row["train_flops_per_seq_as_printed"].get<std::string>());
    const double sixND = 6 * row["n_params_karpathy"].get<double>() * 2048;
    const double ratio = static_cast<double>(reportOf("chinchilla", shape).training) / sixND;
    EXPECT_NEAR(ratio, row["published_ratio_table_A4"].get<double>(), 0.005) << "the printed column";
  }
}

TEST(Conventions, PalmAppendixB) {
  // N in units of 1e7; the published sizes.
  struct Row {
    uint64_t parameters, layers, heads;
    const char *perToken;
  };
  for (const Row &row :
       {Row{540'350'000'000, 118, 48, "3277734806784"}, Row{62'500'000'000, 64, 32, "387884901888"},
        Row{8'630'000'000, 32, 16, "55001225472"}}) {
    PublishedShape shape;
    shape.layers = row.layers, shape.heads = row.heads, shape.headDim = 256, shape.sequence = 2048;
    shape.width = row.heads * 256, shape.parameters = row.parameters;
    EXPECT_EQ(toDecimal(reportOf("palm", shape).training / 2048), row.perToken);
  }
  // 238.3K tokens a second on 6144 chips of 275 TFLOP/s: 46.2 % of the peak, 45.7 % without attention.
  PublishedShape palm;
  palm.layers = 118, palm.heads = 48, palm.headDim = 256, palm.sequence = 2048,
  palm.parameters = 540'350'000'000;
  const double rate = 238.3e3 / (6144 * 275e12) / 2048;
  EXPECT_NEAR(static_cast<double>(reportOf("palm", palm).training) * rate, 0.462, 0.0005);
  EXPECT_NEAR(static_cast<double>(reportOf("6n", palm).training) * rate, 0.457, 0.0005);
}

TEST(Conventions, MegatronTable1) {
  for (const Json &row : published("megatron_2104_04473_table1")) {
    PublishedShape shape;
    shape.layers = row["layers"].get<uint64_t>(), shape.width = row["hidden"].get<uint64_t>();
    shape.heads = shape.width / 128, shape.headDim = 128, shape.ffn = 4 * shape.width;
    shape.vocabulary = row["vocab"].get<uint64_t>(),
    shape.positions = shape.sequence = row["seq"].get<uint64_t>();
    shape.batch = row["global_batch"].get<uint64_t>(), shape.gated = false, shape.tied = true;
    EXPECT_EQ(toDecimal(reportOf("megatron", shape).parameters),
              std::to_string(row["params_formula"].get<uint64_t>()));
    EXPECT_EQ(training("megatron-recompute", shape),
              row["flops_iter_with_full_recompute"].get<std::string>());
    EXPECT_EQ(training("megatron", shape), row["flops_iter_no_recompute"].get<std::string>());
  }
}

TEST(Conventions, NanoGptSizingOfGpt2) {
  // Without biases: 124,337,664 parameters (the published integer).
  PublishedShape gpt2;
  gpt2.layers = 12, gpt2.width = 768, gpt2.heads = 12, gpt2.headDim = 64, gpt2.ffn = 3072,
  gpt2.vocabulary = 50257;
  gpt2.positions = gpt2.sequence = 1024, gpt2.gated = false, gpt2.tied = true, gpt2.parameters = 124'337'664;
  ConventionReport estimate = reportOf("nanogpt", gpt2);
  EXPECT_EQ(toDecimal(estimate.training), "875062886400");
  EXPECT_EQ(toDecimal(estimate.parameters), "123551232");
  // The notebook's own sum over matrices is Megatron's form: 2 a multiply-add, full attention, head.
  EXPECT_EQ(toDecimal(reportOf("megatron", gpt2).forward), "291648307200");
  EXPECT_EQ(training("megatron", gpt2), "874944921600");
}

TEST(Conventions, KaplanOfGpt3) {
  PublishedShape gpt3;
  gpt3.layers = 96, gpt3.width = 12288, gpt3.heads = 96, gpt3.headDim = 128, gpt3.ffn = 4 * 12288;
  gpt3.vocabulary = 50257, gpt3.positions = gpt3.sequence = 2048, gpt3.gated = false, gpt3.tied = true;
  ConventionReport report = reportOf("kaplan", gpt3);
  EXPECT_EQ(toDecimal(report.parameters), "173946175488");
  expectPublished(6 * static_cast<double>(report.parameters) * 300e9, 3.131e23, 4);
  // 6 N + 6 L T d_attn a token.
  EXPECT_EQ(toDecimal(report.training / 2048),
            toDecimal(Count(6) * 173946175488 + Count(6) * 96 * 2048 * 12288));
}

PublishedShape llama3(uint64_t layers, uint64_t width, uint64_t heads, uint64_t ffn) {
  PublishedShape shape;
  shape.layers = layers, shape.width = width, shape.heads = heads, shape.kvHeads = 8, shape.headDim = 128;
  shape.ffn = ffn, shape.vocabulary = 128256, shape.sequence = 8192;
  return shape;
}

PublishedShape qwen3Moe(uint64_t layers, uint64_t width, uint64_t heads, uint64_t expertFfn,
                        uint64_t vocabulary) {
  PublishedShape shape;
  shape.layers = layers, shape.width = width, shape.heads = heads, shape.kvHeads = 4, shape.headDim = 128;
  shape.experts = 128, shape.topK = 8, shape.expertFfn = expertFfn, shape.vocabulary = vocabulary;
  shape.sequence = 4096;
  return shape;
}

TEST(Conventions, MegatronBridgeGoldenValues) {
  EXPECT_EQ(training("megatron-bridge", llama3(32, 4096, 32, 14336)), "421645529382912");
  EXPECT_EQ(training("megatron-bridge", llama3(80, 8192, 64, 28672)), "3680031058427904");
  EXPECT_EQ(training("megatron-bridge", qwen3Moe(48, 2048, 32, 768, 151680)), "94220845056000");
  EXPECT_EQ(training("megatron-bridge", qwen3Moe(94, 4096, 64, 1536, 151680)), "606324828143616");
  // The digits that the test suite of the program prints.
  expectPublished(static_cast<double>(reportOf("megatron-bridge", llama3(32, 4096, 32, 14336)).training),
                  4.22e14, 3);
}

TEST(Conventions, TorchtitanOfQwen3) {
  PublishedShape shape = qwen3Moe(48, 2048, 32, 768, 151936);
  shape.sequence = 8192;
  shape.parameters = 30'532'122'624; // the norms of queries and keys are parameters, too
  EXPECT_EQ(toDecimal(reportOf("torchtitan", shape).training / 8192), "37578559488");
}

/// The exact training FLOPs of public models at 4096 positions, and 6 N D, which is off by up to a third.
TEST(Conventions, ExactAndSixNDOfPublicModels) {
  const Json models = published("models");
  for (const char *name :
       {"TinyLlama-1.1B", "Llama-2-7B", "Llama-3-8B", "Mixtral-8x7B", "OLMoE-1B-7B-0924", "Qwen3-30B-A3B"}) {
    const Json &row = models.at(name);
    const Json &config = row["config"], &counts = row["counts"], &flops = row["flops_T4096_B1"];
    PublishedShape shape;
    shape.layers = config["num_hidden_layers"].get<uint64_t>(),
    shape.width = config["hidden_size"].get<uint64_t>();
    shape.heads = config["num_attention_heads"].get<uint64_t>();
    shape.kvHeads = config["num_key_value_heads"].get<uint64_t>();
    shape.headDim = config.value("head_dim", static_cast<uint64_t>(shape.width / shape.heads));
    shape.ffn = config["intermediate_size"].get<uint64_t>(),
    shape.vocabulary = config["vocab_size"].get<uint64_t>();
    if (config.contains("num_experts")) {
      shape.experts = config["num_experts"].get<uint64_t>(),
      shape.topK = config["num_experts_per_tok"].get<uint64_t>();
      shape.expertFfn = config.value("moe_intermediate_size", config["intermediate_size"].get<uint64_t>());
    }
    shape.sequence = 4096, shape.parameters = counts["total"].get<uint64_t>();
    ConventionReport exact = reportOf("exact", shape), sixN = reportOf("6n", shape);
    EXPECT_EQ(toDecimal(exact.parameters), std::to_string(counts["active_incl_embeddings"].get<uint64_t>()));
    EXPECT_EQ(toDecimal(exact.training), flops["train_causal_exact"].get<std::string>()) << name;
    const Count active = counts["active_incl_embeddings"].get<uint64_t>();
    EXPECT_EQ(toDecimal(sixN.training), toDecimal(6 * active * 4096));
    EXPECT_EQ(toDecimal(exact.training - exact.forward), toDecimal(2 * exact.forward));
  }
}

/// 2506.12119: the optima of 2B and 7B, first layer dense, shared expert as wide as the chosen ones.
PublishedShape equalResources(uint64_t layers, uint64_t width, uint64_t heads, uint64_t ffn, uint64_t experts,
                              uint64_t topK, uint64_t expertFfn) {
  PublishedShape shape;
  shape.layers = layers, shape.width = width, shape.heads = heads, shape.headDim = 128, shape.ffn = ffn;
  shape.experts = experts, shape.topK = topK, shape.expertFfn = expertFfn, shape.sharedFfn = topK * expertFfn;
  shape.denseLayers = 1, shape.vocabulary = 65536, shape.sequence = 2048;
  return shape;
}

TEST(Conventions, EqualResourcesOfTheMoeOptima) {
  ConventionReport two = reportOf("2506.12119", equalResources(16, 1408, 11, 3904, 92, 7, 320));
  expectPublished(static_cast<double>(two.parameters), 2150.6e6, 5);
  expectPublished(std::stod(figure(two, "n_active")), 427.2e6, 4);
  expectPublished(std::stod(figure(two, "router")), 1.94e6, 3);
  EXPECT_EQ(figure(two, "activation_percent"), "19.87");
  EXPECT_EQ(figure(two, "activation_percent_with_router"), "19.94");
  expectPublished(std::stod(figure(two, "m_training_with_router")), 3.129e9, 4);
  // The tokens that C = 9.36e20 buys.
  expectPublished(9.36e20 / std::stod(figure(two, "m_training_with_router")), 2.99e11, 3);

  ConventionReport seven = reportOf("2506.12119", equalResources(24, 2048, 16, 5464, 78, 6, 512));
  expectPublished(static_cast<double>(seven.parameters), 6513.8e6, 5);
  expectPublished(std::stod(figure(seven, "n_active")), 1304.4e6, 5);
  expectPublished(std::stod(figure(seven, "router")), 3.67e6, 3);
  expectPublished(std::stod(figure(seven, "m_training_with_router")), 9.057e9, 4);
}

TEST(Conventions, EqualResourcesOfTheDenseBaselines) {
  struct Row {
    uint64_t layers, heads, width, ffn;
    double m;
  };
  for (const Row &row : {Row{28, 17, 2176, 8848, 1.4383e10}, Row{44, 19, 2432, 7008, 2.2374e10},
                         Row{32, 32, 4096, 11008, 4.2077e10}}) {
    PublishedShape shape;
    shape.layers = row.layers, shape.heads = row.heads, shape.headDim = 128, shape.width = row.width;
    shape.ffn = row.ffn, shape.vocabulary = 65536, shape.sequence = 2048;
    expectPublished(std::stod(figure(reportOf("2506.12119", shape), "m_training")), row.m, 5);
  }
}

TEST(Conventions, RepeatedDataCountsMatricesAndOneTable) {
  struct Row {
    uint64_t width, ffn, layers;
    double matrices; // in millions, as printed
  };
  for (const Row &row : {Row{256, 688, 4, 3.16}, Row{512, 1024, 8, 20.97}, Row{640, 1920, 11, 58.57},
                         Row{768, 2560, 15, 123.86}, Row{896, 3584, 18, 231.21}, Row{1280, 4224, 21, 478.25},
                         Row{1792, 5120, 24, 968.88}, Row{2304, 6144, 30, 1911.03}}) {
    PublishedShape shape;
    shape.layers = row.layers, shape.width = row.width, shape.heads = row.width / 64, shape.headDim = 64;
    shape.ffn = row.ffn, shape.vocabulary = 32000, shape.sequence = 256;
    EXPECT_NEAR(static_cast<double>(quantitiesOf(shape).matrices) / 1e6, row.matrices, 0.0050001);
    ConventionReport dense = reportOf("2606.01155", shape);
    EXPECT_EQ(toDecimal(dense.parameters), toDecimal(quantitiesOf(shape).matrices + 32000 * row.width));
    EXPECT_EQ(toDecimal(dense.training), toDecimal(6 * dense.parameters * 256));
    shape.keptPerMille = 250;
    ConventionReport sparse = reportOf("2606.01155", shape);
    EXPECT_EQ(toDecimal(sparse.parameters), toDecimal(dense.parameters / 4));
    EXPECT_EQ(figure(sparse, "dense_training"), toDecimal(dense.training));
    EXPECT_EQ(figure(sparse, "density"), "0.250000");
    EXPECT_EQ(figure(sparse, "step_static"), "0.250000");
    EXPECT_EQ(figure(sparse, "step_snfs"), "0.500000");
  }
}

TEST(SparseTrainingShares, RiglEveryHundredSteps) {
  const Json factors = published("dst");
  for (const Json &row : factors.at("rigl_dT100"))
    EXPECT_NEAR(sparseTrainingShare(SparseTraining::Rigl, row["f_S"].get<double>(), 100),
                row["ratio_to_dense_training"].get<double>(), 5e-7);
  EXPECT_DOUBLE_EQ(sparseTrainingShare(SparseTraining::Static, 0.2), 0.2);
  EXPECT_DOUBLE_EQ(sparseTrainingShare(SparseTraining::Snfs, 0.2), 1.4 / 3);
  for (SparseTraining method : {SparseTraining::Static, SparseTraining::Snfs, SparseTraining::Rigl})
    EXPECT_DOUBLE_EQ(sparseTrainingShare(method, 1), 1) << "a dense mask costs what no mask costs";
}

/// The published ResNet-50 rows of RigL, five times the steps. f_S is printed to two digits, so five of it
/// are known to 0.025, and the result is printed to 0.005.
TEST(SparseTrainingShares, ResNetRows) {
  EXPECT_NEAR(5 * sparseTrainingShare(SparseTraining::Rigl, 0.42, 100), 2.09, 0.03);
  EXPECT_NEAR(5 * sparseTrainingShare(SparseTraining::Rigl, 0.23, 100), 1.14, 0.03);
  EXPECT_NEAR(32000.0 * 4096 * 3 * 8.2e9, 3.2e18, 0.05e18);
}

} // namespace
} // namespace sluice
