#include "frontends/twin/TwinSpec.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace sluice {
namespace {

using Keys = std::map<std::string, std::string>;

std::string number(double value) {
  // The shortest text that reads back as the same number.
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    if (std::stod(text) == value)
      return text;
  }
  return absl::StrFormat("%.17g", value);
}

/// Every key of the model section that a configuration has, and the weights of the routers' losses.
Keys keysOf(const DecoderConfig &config) {
  auto boolean = [](bool value) { return std::string(value ? "true" : "false"); };
  Keys keys = {
      {"model.vocabulary", std::to_string(config.vocabulary)}, {"model.width", std::to_string(config.width)},
      {"model.layers", std::to_string(config.layers)},         {"model.heads", std::to_string(config.heads)},
      {"model.kv_heads", std::to_string(config.kvHeads)},      {"model.tied", boolean(config.tied)},
      {"model.attention_bias", boolean(config.attentionBias)}, {"model.mlp_bias", boolean(config.mlpBias)},
      {"model.norm_epsilon", number(config.normEpsilon)},      {"model.rope_theta", number(config.ropeTheta)},
      {"model.init", number(config.initStandardDeviation)}};
  if (config.alibi)
    keys["model.positions"] = "alibi";
  if (config.queryKeyNorm != QueryKeyNorm::None)
    keys["model.qk_norm"] = config.queryKeyNorm == QueryKeyNorm::Head ? "head" : "whole";
  if (config.heads * config.headDim != config.width)
    keys["model.head_dim"] = std::to_string(config.headDim);
  if (!config.moe) {
    keys["model.ffn"] = std::to_string(config.ffn);
    return keys;
  }
  keys["model.moe.experts"] = std::to_string(config.moe->experts);
  keys["model.moe.top_k"] = std::to_string(config.moe->topK);
  keys["model.moe.ffn"] = std::to_string(config.moe->ffn);
  keys["model.moe.score"] = config.moe->score;
  keys["model.moe.renormalize"] = boolean(config.moe->renormalize);
  keys["model.moe.renormalize_epsilon"] = number(config.moe->renormalizeEpsilon);
  keys["model.moe.scale"] = number(config.moe->scale);
  keys["model.moe.allow_constant_gate"] = boolean(config.moe->allowConstantGate);
  keys["model.moe.shared_ffn"] = std::to_string(config.moe->sharedFfn);
  keys["model.moe.shared_gate"] = boolean(config.moe->sharedGate);
  keys["model.moe.selection_bias"] = boolean(config.moe->selectionBias);
  keys["model.moe.groups"] = std::to_string(config.moe->groups);
  keys["model.moe.groups_kept"] = std::to_string(config.moe->groupsKept);
  keys["model.moe.group_score"] = config.moe->groupScore;
  int64_t firstDense = 0;
  for (const LayerConfig &layer : config.plan) {
    if (layer.experts)
      break;
    ++firstDense;
  }
  if (firstDense > 0) {
    keys["model.moe.first_dense"] = std::to_string(firstDense);
    keys["model.ffn"] = std::to_string(config.ffn);
  }
  if (config.balanceWeight != 0)
    keys["losses.balance"] = number(config.balanceWeight);
  if (config.routerZWeight != 0)
    keys["losses.router_z"] = number(config.routerZWeight);
  return keys;
}

/// A scalar as YAML reads it back: plain where that is safe, else in double quotes.
std::string scalar(const std::string &text) {
  auto isPlain = [](char letter) {
    return llvm::isAlnum(letter) || letter == '_' || letter == '.' || letter == '-' || letter == '+' ||
           letter == '%' || letter == '/';
  };
  if (!text.empty() && llvm::all_of(text, isPlain) && llvm::isAlnum(text[0]))
    return text;
  std::string quoted = "\"";
  for (char letter : text) {
    if (letter == '"' || letter == '\\')
      quoted += '\\';
    quoted += letter;
  }
  return quoted + "\"";
}

/// The written keys of a graph's training section (readTraining in frontends/spec/Spec.cpp puts them there).
void addTraining(Keys &keys, const llvm::json::Object &training) {
  for (const SpecKey &key : specKeys()) {
    auto [section, name] = key.path.rsplit('.');
    const llvm::json::Object *object = section == "train" ? &training : training.getObject(section);
    const llvm::json::Value *value = object && section != "losses" ? object->get(name) : nullptr;
    if (!value)
      continue;
    std::vector<std::string> scalars;
    auto add = [&](const llvm::json::Value &one) {
      if (std::optional<llvm::StringRef> text = one.getAsString())
        scalars.push_back(scalar(text->str()));
      else if (std::optional<bool> boolean = one.getAsBoolean())
        scalars.push_back(*boolean ? "true" : "false");
      else if (std::optional<int64_t> integer = one.getAsInteger())
        scalars.push_back(std::to_string(*integer));
      else if (std::optional<double> real = one.getAsNumber())
        scalars.push_back(number(*real));
    };
    if (const llvm::json::Array *list = value->getAsArray())
      for (const llvm::json::Value &one : *list)
        add(one);
    else
      add(*value);
    if (!scalars.empty())
      keys[key.path.str()] = value->getAsArray() ? "[" + absl::StrJoin(scalars, ", ") + "]" : scalars[0];
  }
}

/// Dotted keys as nested YAML. A section opens where its path differs from the one before.
std::string nested(const Keys &keys) {
  // Names without a section first; sections in the order in which specs are written.
  static const std::vector<std::string> order = {"model", "losses",     "optimizer",  "schedule", "train",
                                                 "data",  "evaluation", "checkpoint", "log"};
  std::vector<std::pair<std::string, std::string>> sorted(keys.begin(), keys.end());
  auto rank = [&](const std::string &key) {
    size_t dot = key.find('.');
    if (dot == std::string::npos)
      return -1;
    return static_cast<int>(std::find(order.begin(), order.end(), key.substr(0, dot)) - order.begin());
  };
  // A subsection comes after its section's own keys.
  auto depth = [](const std::string &key) { return std::count(key.begin(), key.end(), '.'); };
  std::sort(sorted.begin(), sorted.end(), [&](const auto &a, const auto &b) {
    return std::tuple(rank(a.first), depth(a.first), a.first) <
           std::tuple(rank(b.first), depth(b.first), b.first);
  });
  std::string text;
  std::vector<std::string> open;
  for (const auto &[key, value] : sorted) {
    std::vector<std::string> parts = absl::StrSplit(key, '.');
    const std::string name = parts.back();
    parts.pop_back();
    size_t common = 0;
    while (common < parts.size() && common < open.size() && parts[common] == open[common])
      ++common;
    for (size_t level = common; level < parts.size(); ++level)
      text += std::string(2 * level, ' ') + parts[level] + ":\n";
    open = parts;
    text += std::string(2 * parts.size(), ' ') + name + ": " + value + "\n";
  }
  return text;
}

} // namespace

std::string twinSpec(const DecoderConfig &twin, const DecoderConfig &referenceConfig,
                     const std::optional<SpecTree> &reference, const llvm::json::Object &training,
                     int64_t batch, int64_t sequence, const std::string &comment) {
  Keys keys, own = keysOf(twin);
  if (reference) {
    for (const auto &[key, value] : reference->all()) {
      std::vector<std::string> scalars;
      scalars.reserve(value.scalars.size());
      for (const std::string &text : value.scalars)
        scalars.push_back(scalar(text));
      keys[key] = scalars.size() == 1 ? scalars[0] : "[" + absl::StrJoin(scalars, ", ") + "]";
    }
    keys.erase("name"); // a twin is named after its own file
    // Only what differs is written, so that a key that this list does not know stays as it was.
    const Keys before = keysOf(referenceConfig);
    for (const auto &[key, value] : before)
      if (!own.count(key))
        keys.erase(key);
    for (const auto &[key, value] : own)
      if (auto old = before.find(key); old == before.end() || old->second != value)
        keys[key] = scalar(value);
    if (!twin.moe)
      std::erase_if(keys, [](const auto &entry) {
        return llvm::StringRef(entry.first).starts_with("model.moe.") || entry.first == "losses.balance" ||
               entry.first == "losses.router_z";
      });
    if (keys.count("model.head_dim"))
      keys["model.head_dim"] = std::to_string(twin.headDim);
  } else {
    addTraining(keys, training);
    for (const auto &[key, value] : own)
      keys[key] = scalar(value);
    keys["train.batch"] = std::to_string(batch);
    keys["train.seq"] = std::to_string(sequence);
  }
  return comment + nested(keys);
}

} // namespace sluice
