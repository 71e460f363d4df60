// A tiny training run for the checkpoint tests: contents that depend on the step, and the check that they
// came back.
#pragma once

#include "TestFiles.h"
#include "runtime/checkpoint/Checkpoint.h"

#include <cstring>
#include <string>
#include <vector>

namespace sluice::test {

/// The tensors of one step; must outlive the contents made from it.
class TinyRun {
public:
  explicit TinyRun(uint64_t step) : step(step) {
    for (int i = 0; i < 6; ++i) {
      weight.push_back(static_cast<float>(step) + 0.125f * static_cast<float>(i));
      moment.push_back(-weight.back());
    }
  }

  CheckpointContents contents() const {
    CheckpointContents result;
    result.model.push_back({"model.norm.weight", TensorType::F32, {2, 3}, weight.data()});
    TensorSource streamed{"model.embed_tokens.weight", TensorType::F32, {6}};
    streamed.fill = [this](uint64_t offset, void *destination, size_t size) {
      std::memcpy(destination, reinterpret_cast<const char *>(weight.data()) + offset, size);
      return absl::OkStatus();
    };
    result.model.push_back(std::move(streamed));
    result.optimizer.push_back(
        {firstMomentName("model.norm.weight"), TensorType::F32, {2, 3}, moment.data()});
    result.optimizer.push_back(
        {secondMomentName("model.norm.weight"), TensorType::F32, {2, 3}, weight.data()});
    result.state = state();
    result.files.emplace_back("config.resolved.yaml", "seed: 1\n");
    return result;
  }

  nlohmann::json state() const {
    return {{"step", step}, {"seed", ~uint64_t(0)}, {"learning_rate", 0.1 / static_cast<double>(step + 1)}};
  }

  void expectEqual(const Checkpoint &checkpoint) const {
    EXPECT_EQ(checkpoint.step, step);
    EXPECT_EQ(checkpoint.state, state());
    expectBytes(checkpoint.model.find("model.norm.weight"), weight);
    expectBytes(checkpoint.model.find("model.embed_tokens.weight"), weight);
    expectBytes(checkpoint.optimizer.find("model.norm.weight.exp_avg"), moment);
    expectBytes(checkpoint.optimizer.find("model.norm.weight.exp_avg_sq"), weight);
  }

private:
  static void expectBytes(const TensorView *view, const std::vector<float> &values) {
    ASSERT_NE(view, nullptr);
    ASSERT_EQ(view->bytes, values.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(view->data, values.data(), view->bytes), 0) << view->name;
  }

  uint64_t step;
  std::vector<float> weight, moment;
};

/// Does not wait for the disk: enough where only processes die, and much faster.
class UnsyncedFileSystem : public FileSystem {
public:
  Status sync(int, const std::string &) override { return absl::OkStatus(); }
};

inline FileSystem &unsynced() {
  static UnsyncedFileSystem fileSystem;
  return fileSystem;
}

inline void saveStep(CheckpointStore &store, uint64_t step) {
  StatusOr<SaveReport> report = store.save(step, TinyRun(step).contents());
  ASSERT_TRUE(report.ok()) << report.status();
}

/// The newest valid checkpoint of the folder is this step's, whole.
inline void expectNewest(const std::string &runFolder, uint64_t step) {
  StatusOr<NewestCheckpoint> newest = CheckpointStore(runFolder).newestValid();
  ASSERT_TRUE(newest.ok()) << newest.status();
  ASSERT_TRUE(newest->checkpoint.has_value());
  ASSERT_EQ(newest->checkpoint->step, step);
  TinyRun(step).expectEqual(*newest->checkpoint);
}

} // namespace sluice::test
