#include "frontends/spec/Spec.h"

#include "frontends/decoder/Sparsity.h"

#include "runtime/train/TrainingConfig.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace sluice {
namespace {

/// Reads typed keys and remembers the first error, so that a section reads as a list of lines.
class Reader {
public:
  explicit Reader(const SpecTree &tree) : tree(tree) {}
  const Status &status() const { return first; }

  void read(llvm::StringRef path, int64_t &value) { take(tree.integer(path), value); }
  void read(llvm::StringRef path, double &value) { take(tree.number(path), value); }
  void read(llvm::StringRef path, bool &value) { take(tree.boolean(path), value); }
  void read(llvm::StringRef path, std::string &value) { take(tree.text(path), value); }
  void require(llvm::StringRef path) {
    if (!tree.has(path) && first.ok())
      first = usageError("key '", path.str(), "' is missing: expected ", expectedText(*findSpecKey(path)),
                         " (", findSpecKey(path)->description.str(), ")");
  }
  /// Copies a written key of `section` into `object` under its last word, as JSON of its kind.
  void copy(llvm::json::Object &object, llvm::StringRef section) {
    for (const SpecKey &key : specKeys()) {
      if (!key.path.starts_with((section + ".").str()) || !tree.has(key.path))
        continue;
      copyAs(object, key, key.path.drop_front(section.size() + 1));
    }
  }
  void copyAs(llvm::json::Object &object, const SpecKey &key, llvm::StringRef name) {
    auto put = [&](auto value) {
      if (!value.ok())
        fail(value.status());
      else if (*value)
        object[name] = llvm::json::Value(std::move(**value));
    };
    switch (key.kind) {
    case SpecKind::Integer:
      put(tree.integer(key.path));
      break;
    case SpecKind::Number:
      put(tree.number(key.path));
      break;
    case SpecKind::Boolean:
      put(tree.boolean(key.path));
      break;
    case SpecKind::IntegerList: {
      auto list = tree.integers(key.path);
      if (!list.ok())
        return fail(list.status());
      llvm::json::Array array;
      for (int64_t value : **list)
        array.push_back(value);
      object[name] = std::move(array);
      break;
    }
    case SpecKind::TextList: {
      auto list = tree.texts(key.path);
      if (!list.ok())
        return fail(list.status());
      llvm::json::Array array;
      for (const std::string &value : **list)
        array.push_back(value);
      object[name] = std::move(array);
      break;
    }
    case SpecKind::IntegerOrText:
      if (auto count = tree.integer(key.path); count.ok())
        put(std::move(count));
      else
        put(tree.text(key.path));
      break;
    case SpecKind::Text:
    case SpecKind::Choice:
      put(tree.text(key.path));
      break;
    }
  }
  void fail(const Status &status) {
    if (first.ok())
      first = status;
  }

private:
  template <typename T> void take(StatusOr<std::optional<T>> value, T &target) {
    if (!value.ok())
      fail(value.status());
    else if (*value)
      target = **value;
  }
  const SpecTree &tree;
  Status first;
};

/// Which layers have experts: not the first `first_dense`, and of the others every `every`-th by its number
/// from 1.
void readLayerPlan(Reader &reader, const SpecTree &tree, DecoderConfig &decoder) {
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

void readModel(Reader &reader, const SpecTree &tree, DecoderConfig &decoder) {
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

/// Reads the section `sparsity` into the decoder, and what the run needs of it as JSON.
llvm::json::Object readSparsity(Reader &reader, const SpecTree &tree, DecoderConfig &decoder) {
  Sparsity sparsity;
  llvm::json::Object object;
  auto wrong = [&](llvm::StringRef key, auto &&...text) {
    const std::string place = tree.place(key);
    reader.fail(usageError(place, place.empty() ? "" : ": ", "'", key.str(), "': ", text...));
  };
  for (const char *key : {"sparsity.targets", "sparsity.density"})
    reader.require(key);
  std::string density, distribution = "uniform", method = "static", drop = "magnitude", every = "100", grow;
  if (auto targets = tree.texts("sparsity.targets"); targets.ok() && *targets)
    sparsity.targets = **targets;
  reader.read("sparsity.density", density);
  reader.read("sparsity.distribution", distribution);
  reader.read("sparsity.method", method);
  reader.read("sparsity.update.drop", drop);
  reader.read("sparsity.update.grow", grow);
  reader.read("sparsity.update.every", every);
  if (!reader.status().ok())
    return object;
  const std::optional<Ratio> exact = parseDecimal(density);
  if (!exact || exact->numerator < 1 || exact->numerator > exact->denominator)
    wrong("sparsity.density", "expected a decimal number above 0 and at most 1, found '", density, "'");
  else
    sparsity.density = *exact;
  sparsity.distribution = distribution == "erk" ? Distribution::Erk : Distribution::Uniform;
  const char *ratioKey = "sparsity.distribution.attention_to_mlp";
  if (std::string text; tree.has(ratioKey)) {
    reader.read(ratioKey, text);
    const std::optional<Ratio> ratio = parseDecimal(text);
    sparsity.distribution = Distribution::AttentionToMlp;
    if (!ratio || ratio->numerator < 1)
      wrong(ratioKey, "expected a positive decimal number, found '", text, "'");
    else
      sparsity.attentionToMlp = *ratio;
    object["attention_to_mlp"] = text;
    distribution = "attention_to_mlp";
  }
  int64_t n = 0, m = 0;
  reader.read("sparsity.pattern.n", n);
  reader.read("sparsity.pattern.m", m);
  if (tree.has("sparsity.pattern.n") || tree.has("sparsity.pattern.m")) {
    if (n < 1 || m < n)
      wrong("sparsity.pattern.n", "expected n of m with 1 <= n <= m, found ", n, " of ", m);
    else if (sparsity.density.numerator * m != sparsity.density.denominator * n)
      wrong("sparsity.density", "expected ", n, "/", m, ", which the pattern keeps, found '", density, "'");
    sparsity.pattern = concat(n, ":", m);
  }
  if (auto block = tree.integers("sparsity.pattern.block"); block.ok() && *block) {
    if ((*block)->size() != 2 || (**block)[0] < 1 || (**block)[1] < 1)
      wrong("sparsity.pattern.block", "expected two positive sizes, [rows, columns], found another list");
    else
      sparsity.pattern = concat("block:", (**block)[0], "x", (**block)[1]);
  }
  if (method != "static" && sparsity.pattern != "unstructured")
    wrong("sparsity.method", "expected static with the pattern ", sparsity.pattern, ", found '", method,
          "'; only unstructured masks move");
  if (drop == "soft")
    wrong("sparsity.update.drop", "expected magnitude or signed, found 'soft', which is not there yet");
  const std::string ownGrowth = method == "rigl" ? "gradient" : method == "set" ? "random" : "none";
  if (!grow.empty() && ownGrowth == "none")
    wrong("sparsity.update.grow", "expected no growth with the method ", method, ", found '", grow, "'");
  llvm::StringRef steps = llvm::StringRef(every).trim();
  steps.consume_back("steps");
  int64_t interval = 0;
  if (steps.trim().getAsInteger(10, interval) || interval < 1)
    wrong("sparsity.update.every", "expected at least 1 step, e.g. 100 steps, found '", every, "'");
  sparsity.gradual = method == "gradual";
  llvm::json::Array targets;
  for (const std::string &target : sparsity.targets)
    targets.push_back(target);
  object["targets"] = std::move(targets);
  object["density"] = density, object["distribution"] = distribution, object["pattern"] = sparsity.pattern;
  object["method"] = method, object["drop"] = drop, object["every"] = interval;
  object["grow"] = grow.empty() ? ownGrowth : grow;
  for (auto [key, name] : {std::pair("sparsity.update.fraction.start", "start"),
                           {"sparsity.update.fraction.end", "end"},
                           {"sparsity.update.fraction.schedule", "schedule"},
                           {"sparsity.update.until", "until"},
                           {"sparsity.regrown.step", "restart"},
                           {"sparsity.regrown.ramp", "ramp"}})
    if (tree.has(key))
      reader.copyAs(object, *findSpecKey(key), name);
  if (tree.has("sparsity.regrown.ramp") && !tree.has("sparsity.regrown.step"))
    wrong("sparsity.regrown.ramp", "expected sparsity.regrown.step beside it, found none");
  if (double percent = 0; tree.has("sparsity.break_even")) {
    reader.read("sparsity.break_even", percent);
    if (!(percent >= 0 && percent <= 100))
      wrong("sparsity.break_even", "expected a percentage from 0 to 100, found ", percent);
    object["break_even"] = percent;
  }
  decoder.sparsity = std::move(sparsity);
  return object;
}

llvm::json::Object readTraining(Reader &reader, const SpecTree &tree, Spec &spec) {
  reader.read("train.batch", spec.batch);
  reader.read("train.seq", spec.sequence);
  llvm::json::Object training;
  training["lr"] = 3e-4;
  training["batch_tokens"] = spec.batch * spec.sequence;
  for (const char *key : {"train.batch_tokens", "train.tokens", "train.lr", "train.seed"})
    if (tree.has(key))
      reader.copyAs(training, *findSpecKey(key), llvm::StringRef(key).drop_front(6));
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
  Reader reader(tree);
  spec.decoder.name = llvm::sys::path::stem(path).str();
  reader.read("name", spec.decoder.name);
  std::string vocabularyFrom = "spec";
  reader.read("model.vocabulary_from", vocabularyFrom);
  spec.vocabularyFromData = vocabularyFrom == "data";
  readModel(reader, tree, spec.decoder);
  spec.training = readTraining(reader, tree, spec);
  if (tree.hasSection("sparsity"))
    spec.training["sparsity"] = readSparsity(reader, tree, spec.decoder);
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
