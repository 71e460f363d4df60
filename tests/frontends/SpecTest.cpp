// Specs and Hugging Face configs: what is wrong is named with its place, what was expected and the nearest
// known name.
#include "frontends/spec/Spec.h"
#include "frontends/huggingface/Config.h"

#include "runtime/support/File.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

const char *const good = R"(model:
  vocabulary: 1_000
  width: 64
  layers: 2
  heads: 4
  kv_heads: 2
  moe:
    experts: 4
    top_k: 2
    ffn: 96
losses:
  balance: 0.01
schedule:
  warmup: 2%
train:
  tokens: 2M
  lr: 1e-3
)";

std::string write(const std::string &name, const std::string &text) {
  std::string path = testing::TempDir() + "/" + name;
  EXPECT_TRUE(writeFile(path, text).ok());
  return path;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// The error of reading `text` as a spec; it must be a usage error.
std::string errorOf(const std::string &text, const std::vector<std::string> &assignments = {}) {
  StatusOr<Spec> spec = readSpec(write("spec.yaml", text), assignments);
  if (spec.ok())
    return "no error";
  EXPECT_EQ(exitCode(spec.status()), ExitCode::Usage);
  return std::string(spec.status().message());
}

TEST(Spec, ReadsWhatIsWritten) {
  StatusOr<Spec> spec = readSpec(write("good.yaml", good), {"train.seq=128", "model.moe.top_k=3"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->decoder.name, "good");
  EXPECT_EQ(spec->decoder.vocabulary, 1000);
  EXPECT_EQ(spec->decoder.headDim, 16);
  EXPECT_EQ(spec->decoder.moe->topK, 3);
  EXPECT_EQ(spec->sequence, 128);
  EXPECT_EQ(spec->training.getInteger("tokens"), 2000000);
  EXPECT_EQ(spec->training.getInteger("batch_tokens"), 8 * 128);
  EXPECT_EQ(spec->training.getObject("schedule")->getString("warmup"), "2%");
}

TEST(Spec, ABaseGivesDefaultsAndTheVariantWins) {
  write("base.yaml", good);
  StatusOr<Spec> spec = readSpec(write("variant.yaml", "base: base.yaml\nmodel:\n  layers: 5\n"), {});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->decoder.layers, 5);
  EXPECT_EQ(spec->decoder.width, 64);
  EXPECT_EQ(spec->decoder.name, "variant");
}

TEST(Spec, UnknownKeysNameTheNearestOne) {
  EXPECT_NE(errorOf(replaced(good, "top_k", "topk"))
                .find("spec.yaml:9: unknown key 'model.moe.topk'; did you mean "
                      "'model.moe.top_k'?"),
            std::string::npos)
      << errorOf(replaced(good, "top_k", "topk"));
  EXPECT_NE(errorOf(good, {"train.learning=3"}).find("--set train.learning=3: unknown key"),
            std::string::npos);
}

TEST(Spec, AKeyInTheWrongSectionFindsItsHome) {
  std::string text = replaced(good, "train:\n", "train:\n  experts: 4\n");
  EXPECT_NE(errorOf(text).find("did you mean 'model.moe.experts'"), std::string::npos) << errorOf(text);
}

TEST(Spec, WrongTypesSayWhatWasExpected) {
  std::string error = errorOf(replaced(good, "layers: 2", "layers: many"));
  EXPECT_NE(error.find("spec.yaml:4: 'model.layers': expected an integer"), std::string::npos) << error;
  EXPECT_NE(error.find("found 'many'"), std::string::npos) << error;
  EXPECT_NE(errorOf(replaced(good, "lr: 1e-3", "lr: nan")).find("expected a number"), std::string::npos);
  EXPECT_NE(errorOf(replaced(good, "layers: 2", "layers: [2]")).find("found a list"), std::string::npos);
  EXPECT_NE(errorOf(replaced(good, "  moe:\n", "  moe:\n    score: relu\n"))
                .find("expected one of softmax, sigmoid"),
            std::string::npos);
}

TEST(Spec, LayersSharedExpertsAndPositions) {
  const std::string moe =
      replaced(good, "    ffn: 96\n",
               "    ffn: 96\n    shared_ffn: 48\n    shared_gate: true\n    first_dense: 1\n"
               "    every: 2\n    selection_bias: true\n    groups: 2\n    groups_kept: 2\n"
               "    group_score: sum_of_best_two\n");
  const std::string text = replaced(replaced(moe, "layers: 2", "layers: 5"), "kv_heads: 2",
                                    "kv_heads: 2\n  ffn: 160\n  positions: alibi\n  qk_norm: head");
  StatusOr<Spec> spec = readSpec(write("layers.yaml", text), {});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const DecoderConfig &decoder = spec->decoder;
  EXPECT_TRUE(decoder.alibi);
  EXPECT_FALSE(decoder.rotary.present);
  EXPECT_EQ(decoder.queryKeyNorm, QueryKeyNorm::Head);
  EXPECT_EQ(decoder.moe->sharedFfn, 48);
  EXPECT_TRUE(decoder.moe->sharedGate && decoder.moe->selectionBias);
  EXPECT_EQ(decoder.moe->groups, 2);
  EXPECT_EQ(decoder.moe->groupScore, "sum_of_best_two");
  std::vector<bool> experts;
  for (const LayerConfig &layer : layerPlan(decoder))
    experts.push_back(layer.experts);
  EXPECT_EQ(experts, (std::vector<bool>{false, true, false, true, false}));
}

TEST(Spec, KeysOfExpertsSayWhatWasExpected) {
  auto with = [](const std::string &line) {
    return errorOf(replaced(good, "    ffn: 96\n", "    ffn: 96\n    " + line + "\n"));
  };
  for (const auto &[line, message] : std::initializer_list<std::pair<const char *, const char *>>{
           {"shared_ffn: wide", "'model.moe.shared_ffn': expected an integer"},
           {"shared_gate: 1", "'model.moe.shared_gate': expected true or false"},
           {"shared_gate: true", "model.moe.shared_gate: expected a shared expert"},
           {"first_dense: no", "'model.moe.first_dense': expected an integer"},
           {"first_dense: 2", "expected a layer with experts, found none of 2"},
           {"first_dense: 1", "model.ffn: expected a positive integer"},
           {"every: 0", "'model.moe.every': expected a positive integer, found 0"},
           {"every: x", "'model.moe.every': expected an integer"},
           {"selection_bias: 3", "'model.moe.selection_bias': expected true or false"},
           {"groups: x", "'model.moe.groups': expected an integer"},
           {"groups: 3", "model.moe.groups: expected a divisor of model.moe.experts = 4, found 3"},
           {"groups_kept: 2", "model.moe.groups_kept: expected 1 to model.moe.groups = 1, found 2"},
           {"groups: 4", "model.moe.top_k: expected at most the 1 experts of the kept groups, found 2"},
           {"group_score: mean", "expected one of maximum, sum_of_best_two"}})
    EXPECT_NE(with(line).find(message), std::string::npos) << line << ": " << with(line);
  EXPECT_NE(errorOf(replaced(good, "layers: 2", "layers: 2\n  positions: learned"))
                .find("expected one of rope, alibi"),
            std::string::npos);
  EXPECT_NE(errorOf(replaced(good, "layers: 2", "layers: 2\n  qk_norm: all"))
                .find("expected one of none, head, whole"),
            std::string::npos);
}

TEST(Spec, RulesOverSeveralKeys) {
  EXPECT_NE(errorOf(replaced(good, "top_k: 2", "top_k: 5")).find("spec.yaml:9"), std::string::npos);
  EXPECT_NE(
      errorOf(replaced(good, "top_k: 2", "top_k: 5")).find("expected 1 to model.moe.experts = 4, found 5"),
      std::string::npos);
  EXPECT_NE(errorOf(replaced(good, "heads: 4", "heads: 5")).find("expected a divisor of model.width = 64"),
            std::string::npos);
  EXPECT_NE(
      errorOf(replaced(good, "kv_heads: 2", "kv_heads: 3")).find("expected a divisor of model.heads = 4"),
      std::string::npos);
  EXPECT_NE(
      errorOf(replaced(good, "top_k: 2", "top_k: 1")).find("cross-entropy gives the router no gradient"),
      std::string::npos);
  EXPECT_EQ(errorOf(replaced(good, "top_k: 2", "top_k: 1\n    allow_constant_gate: true")), "no error");
}

TEST(Spec, HostileFiles) {
  EXPECT_NE(errorOf("model: [").find("not YAML"), std::string::npos);
  EXPECT_NE(errorOf("a: &x 1\nb: *x\n").find("without YAML anchors"), std::string::npos);
  EXPECT_NE(errorOf(std::string(good) + "train:\n  lr: 2\n").find("written twice"), std::string::npos);
  EXPECT_NE(errorOf("base: spec.yaml\n").find("chain of `base` keys"), std::string::npos);
  EXPECT_NE(errorOf(replaced(good, "vocabulary: 1_000", "vocabulary: 99999999999999999999"))
                .find("expected an integer"),
            std::string::npos);
  EXPECT_NE(errorOf("").find("expected a spec"), std::string::npos);
}

TEST(HuggingFace, FamiliesAndSettingsThatWouldChangeTheMeaningAreRefused) {
  auto errorOfConfig = [](const std::string &text) {
    StatusOr<DecoderConfig> config = readHuggingFaceConfig(write("config.json", text));
    return config.ok() ? std::string("no error") : std::string(config.status().message());
  };
  EXPECT_NE(errorOfConfig(R"({"model_type": "bert"})").find("llama"), std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "bert"})").find("found 'bert'"), std::string::npos);
  EXPECT_NE(
      errorOfConfig(R"({"model_type": "llama", "hidden_act": "mish"})").find("'hidden_act': expected silu"),
      std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}})")
                .find("'rope_scaling.type': expected default, linear, llama3 or yarn"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "llama", "rope_parameters": {"rope_type": "yarn"}})")
                .find("'rope_parameters.factor': expected a positive number, found nothing"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "llama", "rope_parameters": {"partial_rotary_factor": 0.5}})")
                .find("expected 1 for this family"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "llama", "rope_parameters": {"riddle": 1}})")
                .find("'rope_parameters.riddle': expected no such key"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "mistral", "sliding_window": 0})")
                .find("'sliding_window': expected a positive integer or null, found 0"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "qwen2", "num_hidden_layers": 2, "num_attention_heads": 32,
                              "layer_types": ["full_attention", "sliding_attention"]})")
                .find("no sliding_window is in use"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})")
                .find("'scale_attn_by_inverse_layer_idx': expected it absent"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "gemma2", "use_bidirectional_attention": true})")
                .find("'use_bidirectional_attention'"),
            std::string::npos);
  EXPECT_NE(
      errorOfConfig(R"({"model_type": "gpt_neox", "rotary_pct": 0.01})").find("rotary positions turn pairs"),
      std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "mistral", "num_hidden_layers": 99999999999})")
                .find("'num_hidden_layers': expected at most"),
            std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "llama", "mystery": 1})").find("'mystery' is not known"),
            std::string::npos);
  EXPECT_NE(errorOfConfig("{").find("not JSON"), std::string::npos);
}

TEST(HuggingFace, AbsentKeysTakeTheFamilysDefaults) {
  StatusOr<DecoderConfig> llama = readHuggingFaceConfig(write("llama.json", R"({"model_type": "llama"})"));
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->width, 4096);
  EXPECT_EQ(llama->ffn, 11008);
  EXPECT_EQ(llama->normEpsilon, 1e-6);
  StatusOr<DecoderConfig> mixtral =
      readHuggingFaceConfig(write("mixtral.json", R"({"model_type": "mixtral"})"));
  ASSERT_TRUE(mixtral.ok()) << mixtral.status();
  EXPECT_EQ(mixtral->moe->experts, 8);
  EXPECT_EQ(mixtral->ropeTheta, 1e6);
  EXPECT_TRUE(mixtral->moe->renormalize);
  auto defaultsOf = [](const std::string &family) {
    StatusOr<DecoderConfig> config =
        readHuggingFaceConfig(write(family + ".json", R"({"model_type": ")" + family + R"("})"));
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : DecoderConfig();
  };
  for (const LayerConfig &layer : defaultsOf("mistral").plan)
    EXPECT_EQ(layer.window, 4096);
  for (const LayerConfig &layer : defaultsOf("qwen2").plan) // use_sliding_window is off
    EXPECT_EQ(layer.window, 0);
  EXPECT_EQ(defaultsOf("qwen3").headDim, 128);
  EXPECT_EQ(defaultsOf("olmo").vocabulary, 50304);
  const DecoderConfig gpt2 = defaultsOf("gpt2");
  EXPECT_EQ(gpt2.ffn, 3072);
  EXPECT_EQ(gpt2.learnedPositions, 1024);
  EXPECT_EQ(gpt2.warnings.size(), 3u); // three kinds of dropout
  const DecoderConfig neox = defaultsOf("gpt_neox");
  EXPECT_EQ(neox.rotary.dim, 24); // a quarter of 96
  EXPECT_TRUE(neox.parallelResidual);
  const DecoderConfig gemma = defaultsOf("gemma2");
  EXPECT_EQ(gemma.plan[0].window, 4096);
  EXPECT_EQ(gemma.plan[1].window, 0);
  EXPECT_EQ(gemma.attentionScale, 0.0625);
  EXPECT_EQ(gemma.embeddingScale, 48);
}

TEST(HuggingFace, OldAndNewNamesOfRotaryPositionsAgree) {
  auto read = [](const std::string &name, const std::string &keys) {
    StatusOr<DecoderConfig> config = readHuggingFaceConfig(write(name, R"({"model_type": )" + keys + "}"));
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : DecoderConfig();
  };
  const DecoderConfig before =
      read("old.json", R"("llama", "rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0})");
  const DecoderConfig after =
      read("new.json",
           R"("llama", "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0})");
  EXPECT_EQ(before.rotary.frequencies, after.rotary.frequencies);
  EXPECT_EQ(before.rotary.frequencies[0], 0.25); // the first pair turns by 1 a position, stretched four times
  EXPECT_EQ(before.ropeTheta, 500);
  EXPECT_EQ(read("old.json", R"("gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 99)").rotary.dim, 48);
  EXPECT_EQ(read("old.json", R"("gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 99)").ropeTheta, 99);
}

} // namespace
} // namespace sluice
