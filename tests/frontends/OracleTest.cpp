// Published models from their config.json: parameters and FLOPs against exact integers of a table of public
// facts (tests/data/accounting/oracle_params.json; its `schema` says what each number is).
#include "dialects/ledger/Ledger.h"
#include "frontends/cli/Compiler.h"
#include "tests/frontends/MoeConfigs.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

const Json &oracle() {
  static const Json table =
      Json::parse(std::ifstream(std::string(SLUICE_TEST_DATA) + "/accounting/oracle_params.json"));
  return table;
}

/// The family of config.json that publishes a model of the table, by the model's name.
struct Publication {
  const char *prefix, *family;
};
const Publication publications[] = {
    {"pythia-", "gpt_neox"},   {"gpt2", "gpt2"},        {"Llama-2-", "llama"},   {"Llama-3", "llama"},
    {"TinyLlama-", "llama"},   {"SmolLM2-", "llama"},   {"Mistral-", "mistral"}, {"OLMo-", "olmo"},
    {"Qwen2.5-0.5B", "qwen2"}, {"Qwen3-0.6B", "qwen3"}, {"Qwen3-8B", "qwen3"},   {"Gemma-2-", "gemma2"},
};

/// Models that no supported family describes: encoder-decoders, families outside the list, and a GPT-2
/// without biases, which the library's configuration cannot say.
const char *const outside[] = {"DeepSeekMoE-", "Switch-",  "Granite-",
                               "Grok-",        "Llama-4-", "gpt2-124M-bias-false(nanoGPT)"};

bool startsWithAny(const std::string &name, auto &prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](const char *prefix) { return name.rfind(prefix, 0) == 0; });
}

const Publication *publicationOf(const std::string &name) {
  if (startsWithAny(name, outside))
    return nullptr;
  for (const Publication &publication : publications)
    if (name.rfind(publication.prefix, 0) == 0)
      return &publication;
  return nullptr;
}

/// The config.json of a mixture of experts, or null.
const char *writtenConfig(const std::string &name) {
  for (const PublishedConfig &entry : moeConfigs)
    if (name == entry.name)
      return entry.config;
  return nullptr;
}

/// The names of the models to count: status A and B, in a family that is there.
std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto &[name, model] : oracle()["models"].items())
    if (model["status"] != "C" && (publicationOf(name) || writtenConfig(name)))
      names.push_back(name);
  return names;
}

/// The published config.json, from the settings of the table and what its family names otherwise.
Json configOf(const std::string &name, const Json &settings) {
  if (const char *written = writtenConfig(name))
    return Json::parse(written);
  const std::string family = publicationOf(name)->family;
  Json config = {{"model_type", family}};
  if (family == "gpt2") {
    const std::pair<const char *, const char *> names[] = {{"hidden_size", "n_embd"},
                                                           {"num_hidden_layers", "n_layer"},
                                                           {"num_attention_heads", "n_head"},
                                                           {"intermediate_size", "n_inner"},
                                                           {"learned_pos", "n_positions"},
                                                           {"vocab_size", "vocab_size"},
                                                           {"tie_word_embeddings", "tie_word_embeddings"}};
    for (const auto &[theirs, ours] : names)
      config[ours] = settings[theirs];
    return config;
  }
  for (const char *key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                          "intermediate_size", "vocab_size", "head_dim"})
    if (settings.contains(key))
      config[key] = settings[key];
  config["tie_word_embeddings"] = settings.value("tie_word_embeddings", false);
  if (family == "mistral")
    config["sliding_window"] = 4096;
  return config;
}

class Oracle : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, Oracle, testing::ValuesIn(models()), [](const auto &info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST_P(Oracle, ParametersAndFlops) {
  const Json &model = oracle()["models"][GetParam()];
  const std::string file = testing::TempDir() + "/oracle-" + GetParam() + ".json";
  std::ofstream(file) << configOf(GetParam(), model["config"]).dump();

  Compiler compiler;
  StatusOr<LoadedModel> loaded = compiler.load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  CompilerOptions options;
  options.bindings = "batch=1,seq=4096";
  ASSERT_TRUE(compiler.run(*loaded, Phase::Differentiate, options).ok());
  StatusOr<Ledger> ledger = makeLedger(*loaded->module);
  ASSERT_TRUE(ledger.ok()) << ledger.status();

  const Json &counts = model["counts"];
  auto expect = [](const char *what, Count found, const Json &expected) {
    EXPECT_EQ(toDecimal(found), expected.is_string() ? expected.get<std::string>() : expected.dump()) << what;
  };
  expect("total", ledger->parameters.total, counts["total"]);
  expect("active", ledger->parameters.active, counts["active_incl_embeddings"]);
  expect("without the input table", ledger->parameters.activeWithoutInputTable,
         counts["active_excl_input_embedding"]);
  expect("without tables", ledger->parameters.activeNonEmbedding, counts["active_non_embedding"]);
  expect("total without tables", ledger->parameters.nonEmbedding, counts["total_non_embedding"]);
  if (!model.contains("flops_T4096_B1"))
    return;
  const Json &flops = model["flops_T4096_B1"];
  expect("forward, full", ledger->forward().fullAttention.contraction, flops["total_fwd_full"]);
  expect("forward, causal", ledger->forward().counts.ideal.contraction, flops["total_fwd_causal_exact"]);
  expect("training, full", ledger->training().fullAttention.contraction, flops["train_full"]);
  expect("training, causal", ledger->training().counts.ideal.contraction, flops["train_causal_exact"]);
}

TEST(OracleList, NoModelIsSkippedInSilence) {
  for (const auto &[name, model] : oracle()["models"].items()) {
    if (model["status"] == "C")
      continue;
    EXPECT_EQ(
        (publicationOf(name) != nullptr) + (writtenConfig(name) != nullptr) + startsWithAny(name, outside), 1)
        << name;
  }
  EXPECT_GE(models().size(), 44u);
}

} // namespace
} // namespace sluice::cli
