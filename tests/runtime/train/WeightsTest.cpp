// State tensors under weight-file names: split experts, bit for bit, and refusals that name the tensor.
#include "runtime/train/Weights.h"

#include "runtime/support/File.h"
#include "tests/runtime/executor/FakeDevice.h"
#include "tests/runtime/executor/TinyModel.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice {
namespace {

class Weights : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-weights-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    executable = *parseExecutable(serializeExecutable(testing::tinyModel({.experts = 4})), "tiny.slx");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Session makeSession() { return *Session::create(executable, device); }

  /// Every parameter and moment holds different bits, among them signalling NaNs and denormals.
  void fill(Session &session) {
    uint32_t bits = 0x7f800001;
    for (const StateTensor &tensor : executable.description.tensors) {
      std::vector<uint32_t> values(tensor.place.elements());
      for (uint32_t &value : values)
        value = bits += 0x10001;
      ASSERT_TRUE(session.writeState(tensor, 0, values.data(), values.size() * 4).ok());
    }
  }

  std::string folder;
  Executable executable;
  testing::FakeDevice device;
};

TEST_F(Weights, ExportSplitsExpertsAndKeepsEveryBit) {
  Session from = makeSession();
  fill(from);
  ASSERT_TRUE(exportModel(from, folder + "/export").ok());
  StatusOr<WeightFiles> files = WeightFiles::open(folder + "/export");
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->names(),
            (std::vector<std::string>{"lm_head.weight", "model.embed_tokens.weight",
                                      "model.layers.0.block_sparse_moe.experts.0.gate.weight",
                                      "model.layers.0.block_sparse_moe.experts.1.gate.weight",
                                      "model.layers.0.block_sparse_moe.experts.2.gate.weight",
                                      "model.layers.0.block_sparse_moe.experts.3.gate.weight"}));
  std::string gate = *from.readState("layers.0.moe.gate");
  const TensorView *second = files->find("model.layers.0.block_sparse_moe.experts.1.gate.weight");
  EXPECT_EQ(second->shape, (std::vector<int64_t>{16}));
  EXPECT_EQ(std::memcmp(second->data, gate.data() + 16 * 4, 16 * 4), 0);
  EXPECT_EQ(*readFile(folder + "/export/config.json"), executable.description.modelConfig);

  Session to = makeSession();
  ASSERT_TRUE(importModel(to, [&](std::string_view name) { return files->find(name); }, "export").ok());
  for (const char *name : {"embed", "head", "layers.0.moe.gate"})
    EXPECT_EQ(*to.readState(name), *from.readState(name)) << name;
  EXPECT_TRUE(unusedTensors(to, *files).empty());
}

TEST_F(Weights, MomentsHaveTheirParametersNames) {
  Session session = makeSession();
  std::vector<std::string> names;
  for (const TensorSource &source : optimizerTensors(session))
    names.push_back(source.name);
  EXPECT_EQ(names.size(), 2u * 6);
  EXPECT_EQ(names[0], "model.embed_tokens.weight.exp_avg");
  EXPECT_EQ(names[1], "model.embed_tokens.weight.exp_avg_sq");
}

TEST_F(Weights, RefusalsNameTheTensor) {
  Session session = makeSession();
  std::vector<TensorSource> sources = modelTensors(session);
  auto write = [&](const std::string &name, std::vector<TensorSource> tensors) {
    std::string bytes;
    SafetensorsWriter writer = *SafetensorsWriter::create(std::move(tensors));
    EXPECT_TRUE(writer
                    .write([&](const void *part, size_t size) {
                      bytes.append(static_cast<const char *>(part), size);
                      return absl::OkStatus();
                    })
                    .ok());
    EXPECT_TRUE(writeFile(folder + "/" + name, bytes).ok());
    return folder + "/" + name;
  };
  auto import = [&](const std::string &path) {
    WeightFiles files = *WeightFiles::open(path);
    return importModel(session, [&](std::string_view name) { return files.find(name); }, path);
  };
  std::vector<TensorSource> fewer(sources.begin() + 1, sources.end());
  Status missing = import(write("missing.safetensors", fewer));
  EXPECT_EQ(exitCode(missing), ExitCode::BadInput);
  EXPECT_NE(missing.message().find("model.embed_tokens.weight"), absl::string_view::npos);

  std::vector<TensorSource> turned = sources;
  std::swap(turned[0].shape[0], turned[0].shape[1]);
  Status shape = import(write("shape.safetensors", turned));
  EXPECT_EQ(exitCode(shape), ExitCode::BadInput);
  EXPECT_NE(shape.message().find("[64, 16]"), absl::string_view::npos) << shape.message();

  // float64 weights are taken when float32 can hold them, and refused when not.
  std::vector<double> exact(64 * 16, 0.5), inexact(64 * 16, 0.1);
  for (auto [values, ok] : {std::pair(&exact, true), std::pair(&inexact, false)}) {
    std::vector<TensorSource> wide = sources;
    wide[0].type = TensorType::F64;
    wide[0].fill = nullptr;
    wide[0].data = values->data();
    Status status = import(write(ok ? "exact.safetensors" : "inexact.safetensors", wide));
    EXPECT_EQ(status.ok(), ok) << status.ToString();
  }
  std::vector<float> read(64 * 16);
  ASSERT_TRUE(
      session.readState(*executable.description.tensor("embed"), 0, read.data(), read.size() * 4).ok());
  EXPECT_EQ(read, std::vector<float>(64 * 16, 0.5f));
}

TEST_F(Weights, FirstNotFiniteNamesParameterThenGradient) {
  Session session = makeSession();
  EXPECT_EQ(*firstNotFinite(session), "");
  float infinity = INFINITY;
  ASSERT_TRUE(session.writeState(*executable.description.tensor("head/gradient"), 400, &infinity, 4).ok());
  EXPECT_EQ(*firstNotFinite(session), "head");
  ASSERT_TRUE(session.writeState(*executable.description.tensor("layers.0.moe.gate"), 8, &infinity, 4).ok());
  EXPECT_EQ(*firstNotFinite(session), "layers.0.moe.gate");
}

} // namespace
} // namespace sluice
