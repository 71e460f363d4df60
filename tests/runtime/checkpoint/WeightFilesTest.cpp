// Weights in one file, in a folder and in shards behind an index.
#include "runtime/checkpoint/WeightFiles.h"
#include "TestFiles.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::string oneByteTensor(const std::string &name, char value) {
  return safetensorsBytes("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                          std::string(1, value));
}

class WeightFilesTest : public testing::Test {
protected:
  void put(const std::string &name, const std::string &bytes) {
    ASSERT_TRUE(writeFile(folder.path(name), bytes).ok());
  }
  void putShards() {
    put("model-00001-of-00002.safetensors", oneByteTensor("a", 1));
    put("model-00002-of-00002.safetensors", oneByteTensor("b", 2));
  }
  Status openIndex(const std::string &index) {
    put("model.safetensors.index.json", index);
    return WeightFiles::open(folder.path()).status();
  }
  TemporaryFolder folder;
};

TEST_F(WeightFilesTest, OneFileOrItsFolder) {
  put("model.safetensors", oneByteTensor("a", 5));
  for (const std::string &path : {folder.path(), folder.path("model.safetensors")}) {
    StatusOr<WeightFiles> weights = WeightFiles::open(path);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->names(), (std::vector<std::string>{"a"}));
    EXPECT_EQ(*weights->find("a")->data, 5);
    EXPECT_EQ(weights->find("b"), nullptr);
  }
}

TEST_F(WeightFilesTest, Shards) {
  putShards();
  put("model.safetensors.index.json",
      R"({"metadata":{"total_size":2},"weight_map":{"b":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}})");
  StatusOr<WeightFiles> weights = WeightFiles::open(folder.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*weights->find("b")->data, 2);
}

TEST_F(WeightFilesTest, ShardNamesMayNotLeaveTheFolder) {
  putShards();
  for (const char *name : {"../model-00001-of-00002.safetensors", "/etc/passwd.safetensors", "..", "",
                           "a/b.safetensors", "a\\\\b.safetensors", "a\\u0000.safetensors", "model.bin"}) {
    Status status = openIndex(std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name;
    EXPECT_TRUE(mentions(status, "plain file name")) << status;
  }
}

TEST_F(WeightFilesTest, IndexAndShardsMustAgree) {
  putShards();
  EXPECT_TRUE(mentions(openIndex(R"({"weight_map":{"c":"model-00001-of-00002.safetensors"}})"), "nowhere"));
  EXPECT_TRUE(mentions(
      openIndex(
          R"({"weight_map":{"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors"}})"),
      "found it in"));
  EXPECT_TRUE(mentions(openIndex(R"({"weight_map":{"a":"missing.safetensors"}})"), "no such file"));
  EXPECT_TRUE(mentions(openIndex(R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})"), "twice"));
  EXPECT_TRUE(mentions(openIndex(R"({"weight_map":{"a":1}})"), "name of a shard"));
  EXPECT_TRUE(mentions(openIndex(R"({"weight_map":[]})"), "weight_map"));
  EXPECT_TRUE(mentions(openIndex("[1"), "JSON"));
  put("model-00002-of-00002.safetensors", oneByteTensor("a", 2));
  EXPECT_TRUE(mentions(
      openIndex(
          R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})"),
      "one shard"));
}

TEST_F(WeightFilesTest, AFolderWithoutWeightsSaysWhatWasExpected) {
  EXPECT_TRUE(mentions(WeightFiles::open(folder.path()).status(), "model.safetensors"));
}

} // namespace
