// The data of a run: the dataset, its training windows and its fixed evaluation set, as the configuration
// asks for them.
#pragma once

#include "runtime/data/Dataset.h"
#include "runtime/data/Windows.h"
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/train/TrainingConfig.h"

#include <memory>
#include <optional>
#include <string>

namespace sluice {

/// Not movable: the streams point into the dataset.
struct TrainingData {
  Dataset dataset;
  WindowStream training;
  std::optional<WindowStream> validation;

  /// Opens the folder and checks that its vocabulary is the model's. Windows are as long as the sequence of
  /// entry points accumulate and eval. Errors: bad input (data), usage (vocabulary, too little text for one
  /// window).
  static StatusOr<std::unique_ptr<TrainingData>>
  open(const ExecutableDescription &model, const TrainingConfig &config, const std::string &folder);
  TrainingData(const TrainingData &) = delete;
  TrainingData &operator=(const TrainingData &) = delete;

private:
  TrainingData() = default;
};

/// The sequence length of an entry point's input "tokens" [batch, seq]. Errors (bad input): no such input.
StatusOr<int64_t> sequenceOf(const ExecutableDescription &model, std::string_view entry);

} // namespace sluice
