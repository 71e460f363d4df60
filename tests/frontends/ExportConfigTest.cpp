// The configuration that every model of ours exports, read back, builds the same graph.
#include "frontends/cli/ModelCounter.h"
#include "frontends/decoder/BuildDecoder.h"
#include "frontends/huggingface/Config.h"

#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

TEST(ExportConfigTest, EveryModelOfOursSurvivesAsAConfig) {
  int models = 0, own = 0;
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(std::string(SLUICE_SOURCE_DIR) + "/models")) {
    if (entry.path().extension() != ".yaml")
      continue;
    SCOPED_TRACE(entry.path());
    StatusOr<ModelSource> source = readModelSource(entry.path().string(), {});
    if (!source.ok()) { // what several specs share is no model by itself
      ASSERT_NE(source.status().message().find("is missing"), std::string::npos) << source.status();
      continue;
    }
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(huggingFaceConfig(source->config));
    StatusOr<DecoderConfig> read = parseHuggingFaceConfig(text, "exported");
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << text;
    // What is no part of a config.json.
    read->name = source->config.name;
    read->balanceWeight = source->config.balanceWeight, read->routerZWeight = source->config.routerZWeight;
    read->sparsity = source->config.sparsity;
    ModelCounter counter(*source, "");
    StatusOr<std::string> expected = counter.graph(source->config), found = counter.graph(*read);
    ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
    EXPECT_EQ(*found, *expected);
    ++models, own += text.find("SluiceForCausalLM") != std::string::npos;
  }
  EXPECT_GT(models, 30);
  EXPECT_GT(own, 20);
}

/// As the public library (5.24.0) reads them: absent is a family's default, null is as many as heads.
TEST(ReadConfigTest, KeyValueHeadsThatAreAbsentOrNull) {
  for (const auto &[family, absent] :
       {std::pair<const char *, int64_t>{"qwen2", 32}, {"qwen3", 32}, {"llama", 64}})
    for (const char *stated : {"", R"(, "num_key_value_heads": null)", R"(, "num_key_value_heads": 4)"}) {
      const std::string text = concat(R"({"model_type": ")", family,
                                      R"(", "hidden_size": 4096, "num_attention_heads": 64)", stated, "}");
      StatusOr<DecoderConfig> read = parseHuggingFaceConfig(text, "test");
      ASSERT_TRUE(read.ok()) << read.status() << "\n" << text;
      EXPECT_EQ(read->kvHeads, *stated == 0                                            ? absent
                               : std::string(stated).find("null") != std::string::npos ? 64
                                                                                       : 4)
          << text;
    }
}

} // namespace
} // namespace sluice::cli
