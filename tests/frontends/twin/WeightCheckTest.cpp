// `import`: weights of a folder against the graph of its config.json, and what is wrong with them.
#include "frontends/huggingface/WeightCheck.h"

#include "frontends/cli/Compiler.h"
#include "runtime/checkpoint/WeightFiles.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace sluice::cli {
namespace {

std::string fixture(const std::string &name) {
  return std::string(SLUICE_TEST_DATA) + "/" + name;
}

TEST(WeightCheck, PublishedModelsFit) {
  for (const char *name : {"llama-gqa-tied", "mixtral-4x-top2"}) {
    Compiler compiler;
    StatusOr<LoadedModel> model = compiler.load(fixture(name));
    ASSERT_TRUE(model.ok()) << model.status();
    StatusOr<WeightReport> report = checkWeights(*model->module, fixture(name));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(weightStatus(*report, name).ok()) << weightStatus(*report, name);
    EXPECT_GT(report->tensors, 10u);
    EXPECT_EQ(report->files, 1u);
  }
}

/// The fixture's tensors cut into two shards with an index, changed by `edit`.
class Shards : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "/shards";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::filesystem::copy(fixture("mixtral-4x-top2") + "/config.json", folder + "/config.json");
    StatusOr<WeightFiles> weights = WeightFiles::open(fixture("mixtral-4x-top2"));
    ASSERT_TRUE(weights.ok());
    for (const std::string &name : weights->names()) {
      const TensorView *view = weights->find(name);
      tensors[name] = {view->type, view->shape,
                       std::string(reinterpret_cast<const char *>(view->data), view->bytes)};
    }
  }

  struct Tensor {
    TensorType type = TensorType::F32;
    std::vector<int64_t> shape;
    std::string bytes;
  };

  StatusOr<WeightReport> check() {
    nlohmann::json map = nlohmann::json::object();
    std::vector<std::string> names;
    for (const auto &[name, tensor] : tensors)
      names.push_back(name);
    for (size_t shard = 0; shard < 2; ++shard) {
      std::string file = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
      nlohmann::ordered_json header = nlohmann::ordered_json::object();
      std::string data;
      for (size_t i = shard; i < names.size(); i += 2) {
        const Tensor &tensor = tensors[names[i]];
        header[names[i]] = {{"dtype", std::string(tensorTypeName(tensor.type))},
                            {"shape", tensor.shape},
                            {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
        data += tensor.bytes;
        map[names[i]] = file;
      }
      std::string text = header.dump();
      text.resize((text.size() + 7) / 8 * 8, ' ');
      std::string length(8, '\0');
      for (size_t i = 0; i < 8; ++i)
        length[i] = static_cast<char>(text.size() >> (8 * i));
      EXPECT_TRUE(writeFile(folder + "/" + file, length + text + data).ok());
    }
    EXPECT_TRUE(writeFile(folder + "/model.safetensors.index.json",
                          nlohmann::json{{"metadata", nlohmann::json::object()}, {"weight_map", map}}.dump())
                    .ok());
    Compiler compiler;
    SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(folder));
    return checkWeights(*model.module, folder);
  }

  std::string folder;
  std::map<std::string, Tensor> tensors;
};

TEST_F(Shards, TwoFilesWithAnIndexFit) {
  StatusOr<WeightReport> report = check();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(weightStatus(*report, folder).ok()) << weightStatus(*report, folder);
  EXPECT_EQ(report->files, 2u);
  EXPECT_EQ(report->tensors, tensors.size());
}

TEST_F(Shards, EveryDifferenceIsListed) {
  const std::string gate = "model.layers.0.block_sparse_moe.gate.weight",
                    expert = "model.layers.1.block_sparse_moe.experts.3.w2.weight",
                    query = "model.layers.0.self_attn.q_proj.weight", norm = "model.norm.weight";
  for (const std::string &name : {gate, expert, query, norm})
    ASSERT_TRUE(tensors.count(name)) << name;
  tensors.erase(gate);
  std::swap(tensors[expert].shape[0], tensors[expert].shape[1]);
  Tensor moved = tensors[query];
  tensors.erase(query);
  tensors["model.layers.0.self_attn.query.weight"] = moved;
  tensors[norm].type = tensors[norm].type == TensorType::F32 ? TensorType::I32 : TensorType::I64;
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {TensorType::F32, {1}, std::string(4, '\0')};
  StatusOr<WeightReport> report = check();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->missing, (std::vector<std::string>{gate, query}));
  ASSERT_EQ(report->extra.size(), 1u) << "a buffer is no weight";
  EXPECT_EQ(report->extra[0].rfind("model.layers.0.self_attn.query.weight [", 0), 0u) << report->extra[0];
  ASSERT_EQ(report->mismatch.size(), 2u);
  EXPECT_EQ(report->mismatch[0].rfind(expert + ": expected [", 0), 0u) << report->mismatch[0];
  EXPECT_NE(report->mismatch[1].find("expected a floating-point type, found I"), std::string::npos)
      << report->mismatch[1];
  Status status = weightStatus(*report, folder, 1);
  EXPECT_EQ(exitCode(status), ExitCode::BadInput);
  std::string message(status.message());
  for (const char *part : {"2 missing", "and 1 more", "1 extra", "2 of another shape"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Shards, ADamagedHeaderIsBadInput) {
  tensors.begin()->second.bytes += "    "; // longer than its shape says
  EXPECT_EQ(exitCode(check().status()), ExitCode::BadInput) << check().status();
}

} // namespace
} // namespace sluice::cli
