// Weights that another program published go through our reader, checkpoint and writer unchanged, bit for bit.
#include "TestRuns.h"
#include "runtime/checkpoint/TensorConversion.h"
#include "runtime/checkpoint/WeightFiles.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<TensorSource> sourcesOf(const SafetensorsFile &file) {
  std::vector<TensorSource> sources;
  for (const TensorView &view : file.tensors())
    sources.push_back({view.name, view.type, view.shape, view.data});
  return sources;
}

class PublishedWeights : public testing::TestWithParam<const char *> {
protected:
  std::string pathOf(const std::string &name) const {
    return std::string(SLUICE_TEST_DATA "/") + GetParam() + "/" + name;
  }
};

TEST_P(PublishedWeights, TheWriterMakesTheSameFile) {
  for (const char *name : {"model.safetensors", "io.safetensors"}) {
    StatusOr<SafetensorsFile> file = SafetensorsFile::open(pathOf(name));
    ASSERT_TRUE(file.ok()) << file.status();
    StatusOr<SafetensorsWriter> writer = SafetensorsWriter::create(sourcesOf(*file), file->metadata());
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::string bytes;
    ASSERT_TRUE(writer
                    ->write([&](const void *piece, size_t size) {
                      bytes.append(static_cast<const char *>(piece), size);
                      return absl::OkStatus();
                    })
                    .ok());
    EXPECT_TRUE(bytes == *readFile(pathOf(name))) << name;
  }
}

TEST_P(PublishedWeights, ThroughACheckpointBitForBit) {
  StatusOr<WeightFiles> published = WeightFiles::open(pathOf(""));
  ASSERT_TRUE(published.ok()) << published.status();
  CheckpointContents contents;
  contents.state = nlohmann::json::object();
  // The tensors pass through float32 memory, as they do in training.
  std::vector<std::vector<float>> memory;
  for (const std::string &name : published->names()) {
    const TensorView &view = *published->find(name);
    StatusOr<std::vector<float>> values = toFloat32(view, Conversion::Exact);
    ASSERT_TRUE(values.ok()) << values.status();
    memory.push_back(std::move(*values));
    contents.model.push_back({name, TensorType::F32, view.shape, memory.back().data()});
  }
  TemporaryFolder run;
  CheckpointStore store(run.path(), {}, unsynced());
  ASSERT_TRUE(store.save(0, contents).ok());
  EXPECT_TRUE(*readFile(run.path("latest/model.safetensors")) == *readFile(pathOf("model.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedWeights, testing::Values("llama-gqa-tied", "mixtral-4x-top2"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             c = c == '-' ? '_' : c;
                           return name;
                         });

} // namespace
