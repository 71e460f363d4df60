#include "runtime/train/MaskReport.h"

#include "runtime/train/RunState.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sluice {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

StatusOr<std::string> bytesOf(const SafetensorsFile &file, const StateTensor &tensor, TensorType type) {
  const TensorView *view = file.find(tensor.name);
  if (!view)
    return badInputError(file.path(), ": expected a tensor '", tensor.name, "', found none");
  if (view->type != type || view->bytes != tensor.bytes())
    return badInputError(file.path(), ": tensor '", tensor.name, "': expected ", tensor.bytes(), " bytes of ",
                         tensorTypeName(type), ", found ", view->bytes, " of ", tensorTypeName(view->type));
  return std::string(reinterpret_cast<const char *>(view->data), view->bytes);
}

MaskCounts countMatrix(const ModelMask &mask, const std::string &bits, const std::string &start,
                       int64_t matrix) {
  MaskCounts counts;
  counts.weights = mask.pattern.size();
  for (int64_t i = matrix * counts.weights; i < (matrix + 1) * counts.weights; ++i) {
    const bool kept = keepsWeight(bits, i);
    counts.kept += kept;
    counts.shared += kept && keepsWeight(start, i);
  }
  return counts;
}

AgeQuantiles quantilesOf(const ModelMask &mask, const std::string &bits, const std::string &start,
                         const std::string &counters, int64_t step) {
  std::vector<float> ages;
  for (int64_t i = 0; i < mask.weightCount(); ++i) {
    if (!keepsWeight(bits, i))
      continue;
    float counter;
    std::memcpy(&counter, counters.data() + i * 4, 4);
    // A weight of the start has counted every step; a grown one began at `restart`.
    const bool sinceStart = counter == static_cast<float>(step) && keepsWeight(start, i);
    ages.push_back(sinceStart ? counter : std::max(0.0f, counter - static_cast<float>(mask.restart)));
  }
  std::sort(ages.begin(), ages.end());
  auto quantile = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(ages.size())));
    return ages.empty() ? 0.0 : static_cast<double>(ages[std::max<size_t>(rank, 1) - 1]);
  };
  double sum = 0;
  for (float age : ages)
    sum += age;
  return {quantile(0),   quantile(0.1), quantile(0.5),
          quantile(0.9), quantile(1),   ages.empty() ? 0 : sum / static_cast<double>(ages.size())};
}

std::vector<MaskChange> changesOf(const std::vector<json> &metrics, int64_t step) {
  std::vector<MaskChange> changes;
  for (const json &record : metrics) {
    auto layers = record.find("layers");
    if (record.value("kind", json()) != "masks" || layers == record.end() || !layers->is_object())
      continue;
    MaskChange change;
    change.step = record.value("step", int64_t{0}), change.share = record.value("share", 0.0),
    change.removed = record.value("removed", 0.0);
    if (change.step > step)
      continue;
    for (const auto &[name, layer] : layers->items())
      change.layers.push_back({name, layer.value("kept", int64_t{0}), layer.value("grown", int64_t{0}),
                               layer.value("dropped", int64_t{0}), layer.value("products", int64_t{0}),
                               layer.value("skipping", int64_t{0})});
    changes.push_back(std::move(change));
  }
  return changes;
}

/// "set", or for several rules each method once: "set, gradual".
std::string methodsOf(const std::string &training) {
  const json whole = json::parse(training, nullptr, /*allow_exceptions=*/false);
  const json section = whole.is_object() ? whole.value("sparsity", json::object()) : json::object();
  const json rules = section.value("rules", json::array({section}));
  std::string methods;
  for (const json &rule : rules)
    if (const std::string method = rule.value("method", "static"); methods.find(method) == std::string::npos)
      methods += concat(methods.empty() ? "" : ", ", method);
  return methods;
}

ordered_json countsJson(const MaskCounts &counts) {
  return {{"weights", counts.weights},
          {"kept", counts.kept},
          {"density", counts.density()},
          {"kept_since_start", counts.shared},
          {"overlap_with_start", counts.overlap()}};
}

} // namespace

void MaskCounts::operator+=(const MaskCounts &other) {
  weights += other.weights, kept += other.kept, shared += other.shared;
}

StatusOr<MaskReport> reportMasks(const ExecutableDescription &model, const Checkpoint &checkpoint,
                                 const std::vector<json> &metrics) {
  MaskReport report;
  SLUICE_ASSIGN_OR_RETURN(const RunState state,
                          RunState::fromJson(checkpoint.state, checkpoint.path + "/state.json"));
  report.step = state.step;
  try {
    report.method = methodsOf(model.training);
    report.updates = changesOf(metrics, report.step);
  } catch (const json::exception &error) {
    return badInputError("a record of masks, or the training section: expected fields of their types (",
                         error.what(), ")");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<ModelMask> masks, modelMasks(model));
  for (const ModelMask &mask : masks) {
    SLUICE_ASSIGN_OR_RETURN(const std::string bits,
                            bytesOf(checkpoint.optimizer, *mask.mask, TensorType::U8));
    SLUICE_RETURN_IF_ERROR(checkMaskBits(mask, bits, checkpoint.optimizer.path()));
    const std::string start = startMask(mask, state.seed);
    MaskLayer layer{mask.weights->name, mask.patternName, mask.weights->shape(), {}, {}, {}};
    for (int64_t matrix = 0; matrix < mask.matrices; ++matrix) {
      const MaskCounts counts = countMatrix(mask, bits, start, matrix);
      layer.counts += counts;
      if (mask.isStacked)
        layer.experts.push_back(counts);
    }
    if (mask.age) {
      SLUICE_ASSIGN_OR_RETURN(const std::string counters,
                              bytesOf(checkpoint.optimizer, *mask.age, TensorType::F32));
      layer.ages = quantilesOf(mask, bits, start, counters, state.step);
    }
    report.total += layer.counts;
    report.layers.push_back(std::move(layer));
  }
  return report;
}

ordered_json maskReportJson(const MaskReport &report, const std::string &run) {
  ordered_json layers = ordered_json::array(), updates = ordered_json::array();
  for (const MaskLayer &layer : report.layers) {
    ordered_json entry = {{"name", layer.name}, {"pattern", layer.pattern}, {"shape", layer.shape}};
    entry.update(countsJson(layer.counts));
    if (!layer.experts.empty()) {
      entry["experts"] = ordered_json::array();
      for (const MaskCounts &expert : layer.experts)
        entry["experts"].push_back(countsJson(expert));
    }
    if (layer.ages)
      entry["ages"] = {{"minimum", layer.ages->minimum}, {"tenth", layer.ages->tenth},
                       {"median", layer.ages->median},   {"ninetieth", layer.ages->ninetieth},
                       {"maximum", layer.ages->maximum}, {"mean", layer.ages->mean}};
    layers.push_back(std::move(entry));
  }
  auto change = [](const MaskChange::Layer &layer) {
    return ordered_json{
        {"kept", layer.kept},
        {"grown", layer.grown},
        {"dropped", layer.dropped},
        {"products", layer.products},
        {"skipping", layer.skipping},
        {"churn", layer.kept > 0 ? static_cast<double>(layer.grown) / static_cast<double>(layer.kept) : 0.0}};
  };
  for (const MaskChange &update : report.updates) {
    ordered_json entry = {{"step", update.step}, {"share", update.share}, {"removed", update.removed}};
    entry.update(change(update.total()));
    for (const MaskChange::Layer &layer : update.layers)
      entry["layers"][layer.name] = change(layer);
    updates.push_back(std::move(entry));
  }
  return {{"version", 1},
          {"run", run},
          {"step", report.step},
          {"method", report.method},
          {"total", countsJson(report.total)},
          {"layers", std::move(layers)},
          {"updates", std::move(updates)}};
}

} // namespace sluice
