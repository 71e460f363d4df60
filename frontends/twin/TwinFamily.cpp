#include "frontends/twin/TwinFamily.h"

#include "runtime/train/Count.h"

#include <algorithm>
#include <numeric>

namespace sluice {

const std::vector<std::string> twinSizes = {"ffn", "width", "layers", "experts", "expert-ffn"};

namespace {

/// A router that nothing balances collapses; a dense reference has no weight to keep (2101.03961's value).
constexpr double newBalanceWeight = 0.01;

constexpr int64_t searchedLayers = 1024, maximumExperts = 1024, maximumWidth = 1 << 20, maximumFfn = 1 << 24;

/// Half to twice the reference's value on the grid: what several free sizes may do, so that the best match is
/// a model of the same kind and not a ribbon.
void limitAround(TwinVariable &variable, int64_t reference) {
  auto onGrid = [&](int64_t value) { return std::max<int64_t>(value / variable.step, 1) * variable.step; };
  variable.least = std::max(variable.least, onGrid((reference + 1) / 2));
  variable.most = std::max(variable.least, onGrid(2 * reference));
}

Status applyRange(TwinVariable &variable, const TwinRange &range) {
  if (range.step > 0)
    variable.step = range.step, variable.least = range.least;
  else // the first value of the size's own grid
    variable.least =
        std::max(variable.least, (range.least + variable.step - 1) / variable.step * variable.step);
  variable.most = range.most;
  if (variable.least > variable.most)
    return usageError("--range: ", variable.name, "=", range.least, ":", range.most,
                      ": expected at least one multiple of ", variable.step,
                      variable.step == 1 ? "" : " (heads and --multiple-of must divide)",
                      " in it, found none");
  return absl::OkStatus();
}

} // namespace

StatusOr<TwinFamily> TwinFamily::make(const DecoderConfig &reference, const TwinRequest &request) {
  for (const std::string &size : request.vary)
    if (std::find(twinSizes.begin(), twinSizes.end(), size) == twinSizes.end() || size == "expert-ffn") {
      std::string near = nearestName(size, {"ffn", "width", "layers", "experts"});
      return usageError("--vary: expected ffn, width, layers or experts, found '", size, "'",
                        near.empty() ? "" : concat("; did you mean '", near, "'?"));
    }
  TwinFamily family;
  family.base = reference;
  DecoderConfig &base = family.base;
  family.headDimFollows = reference.headDim * reference.heads == reference.width;
  const bool withExperts = request.vary.count("experts") != 0;
  if (withExperts && request.vary.count("ffn"))
    return usageError("--vary: experts vary with their own width; expected ffn not beside it");
  base.huggingFace.clear(); // it describes the reference
  const bool alike = std::all_of(base.plan.begin(), base.plan.end(),
                                 [&](const LayerConfig &layer) { return layer == base.plan.front(); });
  if (request.vary.count("layers") && !alike)
    return usageError(
        "--vary: layers: expected layers that are all alike, found some with another window or without "
        "experts; vary ffn, width or experts");
  if (withExperts) {
    MoeConfig moe = reference.moe.value_or(MoeConfig{});
    if (!reference.moe) {
      moe.topK = 2;
      moe.ffn = reference.ffn;
      for (LayerConfig &layer : base.plan)
        layer.experts = true;
      base.balanceWeight = newBalanceWeight;
    }
    if (request.topK > 0)
      moe.topK = request.topK;
    if (moe.topK == 1)
      moe.renormalize = moe.allowConstantGate; // a renormalised gate of one expert is always 1
    moe.experts = moe.topK;
    base.moe = moe;
  } else if (reference.moe) {
    base.ffn = reference.moe->topK * reference.moe->ffn + reference.moe->sharedFfn;
    base.moe.reset();
    for (LayerConfig &layer : base.plan)
      layer.experts = false;
    base.balanceWeight = base.routerZWeight = 0;
  }

  // Outer sizes first; the last one is found by bisection, so it is the one with the longest range.
  const bool several = request.vary.size() > 1;
  const int64_t multiple = std::max<int64_t>(request.multipleOf, 1);
  auto add = [&](const char *name, int64_t step, int64_t most, int degree, int64_t around) -> Status {
    TwinVariable variable{name, step, most, step, degree};
    if (std::string(name) == "experts")
      variable.least = base.moe->topK + 1; // with as many experts as choices nothing is routed
    if (around > 0)
      limitAround(variable, around);
    if (auto range = request.ranges.find(name); range != request.ranges.end())
      SLUICE_RETURN_IF_ERROR(applyRange(variable, range->second));
    family.free.push_back(variable);
    return absl::OkStatus();
  };
  if (request.vary.count("layers"))
    SLUICE_RETURN_IF_ERROR(add("layers", 1, searchedLayers, 1, several ? reference.layers : 0));
  if (request.vary.count("width"))
    SLUICE_RETURN_IF_ERROR(add("width",
                               family.headDimFollows ? std::lcm(multiple, 2 * reference.heads) : multiple,
                               maximumWidth, 2, several ? reference.width : 0));
  if (withExperts) {
    SLUICE_RETURN_IF_ERROR(add("experts", 1, maximumExperts, 1, 0));
    SLUICE_RETURN_IF_ERROR(add("expert-ffn", multiple, maximumFfn, 1, 0));
  }
  if (request.vary.count("ffn"))
    SLUICE_RETURN_IF_ERROR(add("ffn", multiple, maximumFfn, 1, 0));
  for (const auto &[name, range] : request.ranges)
    if (std::none_of(family.free.begin(), family.free.end(),
                     [&](const TwinVariable &variable) { return variable.name == name; }))
      return usageError("--range: '", name, "' does not vary here; add it to --vary");
  if (family.free.empty())
    return usageError("--vary: expected ffn, width, layers or experts, found nothing");
  for (const TwinVariable &variable : family.free)
    if (variable.name == "experts" && variable.least < base.moe->topK)
      return usageError("--range: experts: expected at least top_k = ", base.moe->topK, ", found ",
                        variable.least);
  if (Status status = checkDecoder(family.at([&] {
        TwinPoint least;
        for (const TwinVariable &variable : family.free)
          least.push_back(variable.least);
        return least;
      }()));
      !status.ok())
    return usageError("the smallest twin is not a model: ", std::string(status.message()));
  return family;
}

DecoderConfig TwinFamily::at(const TwinPoint &point) const {
  DecoderConfig config = base;
  for (size_t i = 0; i < free.size(); ++i) {
    const std::string &name = free[i].name;
    const int64_t value = point[i];
    if (name == "layers") {
      config.layers = value;
      if (!config.plan.empty())
        config.plan.resize(static_cast<size_t>(value), config.plan.front());
    } else if (name == "width") {
      config.width = value;
      if (headDimFollows)
        config.headDim = value / config.heads;
    } else if (name == "experts") {
      config.moe->experts = value;
    } else if (name == "expert-ffn") {
      config.moe->ffn = value;
    } else {
      config.ffn = value;
    }
  }
  return config;
}

std::string TwinFamily::shared() const {
  std::string text;
  auto add = [&](const std::string &name, int64_t value) {
    if (std::none_of(free.begin(), free.end(),
                     [&](const TwinVariable &variable) { return variable.name == name; }))
      text += concat(text.empty() ? "" : ", ", name, " ", value);
  };
  add("vocabulary", base.vocabulary);
  add("width", base.width);
  add("layers", base.layers);
  add("heads", base.heads);
  add("kv heads", base.kvHeads);
  if (base.moe)
    add("top-k", base.moe->topK);
  else
    add("ffn", base.ffn);
  return text;
}

} // namespace sluice
