#include "frontends/spec/Spec.h"

#include "frontends/spec/SparsitySection.h"

#include "runtime/train/TrainingConfig.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace sluice {
namespace {

/// Which layers have experts: not the first `first_dense`, and of the others every `every`-th by its number
/// from 1.
void readLayerPlan(SpecReader &reader, const SpecTree &tree, DecoderConfig &decoder) {
  int64_t firstDense = 0, every = 1;
  reader.read("model.moe.first_dense", firstDense);
  reader.read("model.moe.every", every);
  if (every < 1)
    reader.fail(usageError(tree.place("model.moe.every"),
                           ": 'model.moe.every': expected a positive integer, found ", every));
  if ((firstDense == 0 && every <= 1) || !reader.status().ok())
    return;
  bool any = false;
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const bool experts = layer >= firstDense && (layer + 1) % every == 0;
    decoder.plan.push_back({0, experts});
    any |= experts;
  }
  if (!any)
    reader.fail(usageError(tree.place(firstDense > 0 ? "model.moe.first_dense" : "model.moe.every"),
                           ": 'model.moe': expected a layer with experts, found none of ", decoder.layers,
                           " (first_dense = ", firstDense, ", every = ", every, ")"));
}

void readModel(SpecReader &reader, const SpecTree &tree, DecoderConfig &decoder) {
  for (const char *key : {"model.vocabulary", "model.width", "model.layers", "model.heads"})
    reader.require(key);
  reader.read("model.vocabulary", decoder.vocabulary);
  reader.read("model.width", decoder.width);
  reader.read("model.layers", decoder.layers);
  reader.read("model.heads", decoder.heads);
  decoder.kvHeads = decoder.heads;
  reader.read("model.kv_heads", decoder.kvHeads);
  decoder.headDim =
      decoder.heads > 0 && decoder.width % decoder.heads == 0 ? decoder.width / decoder.heads : 0;
  reader.read("model.head_dim", decoder.headDim);
  if (decoder.headDim == 0 && !tree.has("model.head_dim") && decoder.heads > 0)
    reader.fail(usageError(tree.place("model.heads"), ": 'model.heads': expected a divisor of model.width = ",
                           decoder.width, " or a key model.head_dim, found ", decoder.heads));
  reader.read("model.ffn", decoder.ffn);
  reader.read("model.tied", decoder.tied);
  reader.read("model.attention_bias", decoder.attentionBias);
  reader.read("model.mlp_bias", decoder.mlpBias);
  reader.read("model.norm_epsilon", decoder.normEpsilon);
  reader.read("model.rope_theta", decoder.ropeTheta);
  std::string positions = "rope", norm = "none";
  reader.read("model.positions", positions);
  reader.read("model.qk_norm", norm);
  decoder.alibi = positions == "alibi", decoder.rotary.present = !decoder.alibi;
  decoder.queryKeyNorm = norm == "head"    ? QueryKeyNorm::Head
                         : norm == "whole" ? QueryKeyNorm::Whole
                                           : QueryKeyNorm::None;
  reader.read("model.init", decoder.initStandardDeviation);
  reader.read("losses.balance", decoder.balanceWeight);
  reader.read("losses.router_z", decoder.routerZWeight);
  if (!tree.hasSection("model.moe")) {
    reader.require("model.ffn");
    return;
  }
  MoeConfig moe;
  for (const char *key : {"model.moe.experts", "model.moe.top_k", "model.moe.ffn"})
    reader.require(key);
  reader.read("model.moe.experts", moe.experts);
  reader.read("model.moe.top_k", moe.topK);
  reader.read("model.moe.ffn", moe.ffn);
  reader.read("model.moe.score", moe.score);
  reader.read("model.moe.renormalize", moe.renormalize);
  reader.read("model.moe.renormalize_epsilon", moe.renormalizeEpsilon);
  reader.read("model.moe.scale", moe.scale);
  reader.read("model.moe.allow_constant_gate", moe.allowConstantGate);
  reader.read("model.moe.shared_ffn", moe.sharedFfn);
  reader.read("model.moe.shared_gate", moe.sharedGate);
  reader.read("model.moe.selection_bias", moe.selectionBias);
  reader.read("model.moe.groups", moe.groups);
  reader.read("model.moe.groups_kept", moe.groupsKept);
  reader.read("model.moe.group_score", moe.groupScore);
  readLayerPlan(reader, tree, decoder);
  decoder.moe = moe;
}

llvm::json::Object readTraining(SpecReader &reader, const SpecTree &tree, Spec &spec) {
  reader.read("train.batch", spec.batch);
  reader.read("train.seq", spec.sequence);
  llvm::json::Object training;
  training["lr"] = 3e-4;
  training["batch_tokens"] = spec.batch * spec.sequence;
  for (const char *key : {"train.batch_tokens", "train.tokens", "train.lr", "train.seed"})
    if (tree.has(key))
      reader.copyAs(training, key, llvm::StringRef(key).drop_front(6));
  llvm::json::Object optimizer{{"kind", "adamw"}, {"beta1", 0.9},        {"beta2", 0.95},
                               {"epsilon", 1e-8}, {"weight_decay", 0.1}, {"clip", 1.0}};
  reader.copy(optimizer, "optimizer");
  training["optimizer"] = std::move(optimizer);
  for (const char *section : {"schedule", "losses", "data", "evaluation", "checkpoint", "log"}) {
    llvm::json::Object object;
    reader.copy(object, section);
    training[section] = std::move(object);
  }
  return training;
}

} // namespace

StatusOr<Spec> readSpec(const std::string &path, const std::vector<std::string> &assignments,
                        int64_t vocabulary) {
  SLUICE_ASSIGN_OR_RETURN(SpecTree tree, SpecTree::read(path));
  for (const std::string &assignment : assignments)
    SLUICE_RETURN_IF_ERROR(tree.set(assignment));
  Spec spec;
  SpecReader reader(tree);
  spec.decoder.name = llvm::sys::path::stem(path).str();
  reader.read("name", spec.decoder.name);
  std::string vocabularyFrom = "spec";
  reader.read("model.vocabulary_from", vocabularyFrom);
  spec.vocabularyFromData = vocabularyFrom == "data";
  readModel(reader, tree, spec.decoder);
  spec.training = readTraining(reader, tree, spec);
  if (tree.hasSection("sparsity"))
    spec.training["sparsity"] = readSparsity(reader, tree, spec.decoder.sparsity);
  if (!reader.status().ok()) {
    std::string message(reader.status().message());
    return llvm::StringRef(message).starts_with("key '") ? usageError(path, ": ", message) : reader.status();
  }
  if (spec.vocabularyFromData && vocabulary > 0)
    spec.decoder.vocabulary = vocabulary;
  spec.decoder.maxPositions = spec.sequence;
  auto atPlace = [&](const Status &status) {
    // A rule over several keys names one; its place is where that key was written.
    std::string message(status.message());
    std::string place = tree.place(llvm::StringRef(message).split(':').first);
    return usageError(place.empty() ? path : place, ": ", message);
  };
  if (Status status = checkDecoder(spec.decoder); !status.ok())
    return atPlace(status);
  if (spec.batch <= 0 || spec.sequence <= 0)
    return usageError(path, ": train.batch and train.seq: expected positive integers, found ", spec.batch,
                      " and ", spec.sequence);
  std::string trainingText;
  llvm::raw_string_ostream(trainingText) << llvm::json::Value(llvm::json::Object(spec.training));
  TrainingOverrides overrides;
  if (!spec.training.get("tokens"))
    overrides.tokens = 1; // a horizon may come with --tokens; everything else is checked here
  if (StatusOr<TrainingConfig> checked = readTrainingConfig(trainingText, overrides); !checked.ok())
    return atPlace(checked.status());
  for (const auto &[key, value] : tree.all()) {
    spec.resolved += key + ":";
    for (const std::string &scalar : value.scalars)
      spec.resolved += " " + scalar;
    spec.resolved += "\n";
  }
  return spec;
}

} // namespace sluice
