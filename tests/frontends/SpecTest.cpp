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
  EXPECT_NE(errorOfConfig(R"({"model_type": "gpt2"})").find("expected llama or mixtral, found 'gpt2'"),
            std::string::npos);
  EXPECT_NE(
      errorOfConfig(R"({"model_type": "llama", "hidden_act": "gelu"})").find("'hidden_act': expected silu"),
      std::string::npos);
  EXPECT_NE(
      errorOfConfig(R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}})").find("rope_type"),
      std::string::npos);
  EXPECT_NE(errorOfConfig(R"({"model_type": "mixtral", "sliding_window": 4096})")
                .find("'sliding_window': expected null"),
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
}

} // namespace
} // namespace sluice
