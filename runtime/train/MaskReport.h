// What a run's masks look like: densities, ages, overlap with the start, and what each update replaced. Read
// from a checkpoint and the metrics, without a device.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/schema/ExecutableDescription.h"
#include "runtime/train/Masks.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct MaskCounts {
  int64_t weights = 0, kept = 0;
  int64_t shared = 0; // kept now and by the mask of the start

  double density() const {
    return weights > 0 ? static_cast<double>(kept) / static_cast<double>(weights) : 0;
  }
  /// Share of the kept weights that the start's mask kept too.
  double overlap() const { return kept > 0 ? static_cast<double>(shared) / static_cast<double>(kept) : 0; }
  void operator+=(const MaskCounts &other);
};

/// Ages of kept weights in steps: since the weight was grown, or since the start. Quantile q of n weights is
/// the element ceil(q n) in order.
struct AgeQuantiles {
  double minimum = 0, tenth = 0, median = 0, ninetieth = 0, maximum = 0, mean = 0;
};

struct MaskLayer {
  std::string name;           // of the weights: "layers.0.attn.wq"
  std::string pattern;        // "unstructured", "2:4", "block:16x16"
  std::vector<int64_t> shape; // [out, in], or [experts, out, in]
  MaskCounts counts;
  std::vector<MaskCounts> experts; // empty where there are none
  std::optional<AgeQuantiles> ages;
};

struct MaskReport {
  int64_t step = 0;
  std::string method; // static, set, rigl, gradual; of several rules each once: "set, gradual"
  MaskCounts total;
  std::vector<MaskLayer> layers;
  std::vector<MaskChange> updates; // up to `step`, oldest first
};

/// The report of a checkpoint. `metrics` are the run's records. Errors (bad input): a mask that the
/// checkpoint lacks or that does not fit the executable.
StatusOr<MaskReport> reportMasks(const ExecutableDescription &model, const Checkpoint &checkpoint,
                                 const std::vector<nlohmann::json> &metrics);

/// `{version, run, step, method, total, layers: [...], updates: [...]}`; counts are integers, shares numbers.
nlohmann::ordered_json maskReportJson(const MaskReport &report, const std::string &run);

} // namespace sluice
