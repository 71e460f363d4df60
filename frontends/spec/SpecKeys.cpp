#include "frontends/spec/SpecKeys.h"

#include "absl/strings/str_format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr SpecKey keys[] = {
    {"name", SpecKind::Text, "file name", "name of the model", ""},
    {"base", SpecKind::Text, "",
     "another spec whose keys are the defaults of this one (path relative to this file)", ""},

    {"model.vocabulary", SpecKind::Integer, "", "size of the vocabulary", ""},
    {"model.vocabulary_from", SpecKind::Choice, "spec",
     "data: training takes the size from the data's tokenizer, model.vocabulary serves `stats`", "spec|data"},
    {"model.width", SpecKind::Integer, "", "width of the residual stream", ""},
    {"model.layers", SpecKind::Integer, "", "number of layers", ""},
    {"model.heads", SpecKind::Integer, "", "query heads", ""},
    {"model.kv_heads", SpecKind::Integer, "heads", "key/value heads; a divisor of heads", ""},
    {"model.head_dim", SpecKind::Integer, "width / heads", "dimension of one head", ""},
    {"model.ffn", SpecKind::Integer, "",
     "hidden width of the dense SwiGLU MLP (of the layers without experts)", ""},
    {"model.tied", SpecKind::Boolean, "true", "input and output embedding are one table", ""},
    {"model.attention_bias", SpecKind::Boolean, "false", "biases on q, k, v and the output projection", ""},
    {"model.mlp_bias", SpecKind::Boolean, "false", "biases in the MLP", ""},
    {"model.norm_epsilon", SpecKind::Number, "1e-5", "epsilon of RMSNorm", ""},
    {"model.positions", SpecKind::Choice, "rope",
     "rotary positions, or a bias of the scores that grows with the distance (ALiBi)", "rope|alibi"},
    {"model.rope_theta", SpecKind::Number, "10000", "base of the rotary positions", ""},
    {"model.qk_norm", SpecKind::Choice, "none",
     "RMSNorm of queries and keys: over each head, or over all heads together", "none|head|whole"},
    {"model.init", SpecKind::Number, "0.02", "standard deviation of initial matrices", ""},
    {"model.moe.experts", SpecKind::Integer, "", "number of experts of a layer", ""},
    {"model.moe.top_k", SpecKind::Integer, "", "experts a token chooses", ""},
    {"model.moe.ffn", SpecKind::Integer, "", "hidden width of one SwiGLU expert", ""},
    {"model.moe.score", SpecKind::Choice, "softmax", "score of an expert", "softmax|sigmoid"},
    {"model.moe.renormalize", SpecKind::Boolean, "true",
     "divide the gates by their sum over the chosen experts", ""},
    {"model.moe.renormalize_epsilon", SpecKind::Number, "0", "added to that sum", ""},
    {"model.moe.scale", SpecKind::Number, "1", "multiplies the gates", ""},
    {"model.moe.shared_ffn", SpecKind::Integer, "0", "hidden width of the shared expert beside them; 0: none",
     ""},
    {"model.moe.shared_gate", SpecKind::Boolean, "false",
     "multiply the shared expert by a sigmoid of its own", ""},
    {"model.moe.first_dense", SpecKind::Integer, "0", "so many first layers have an MLP (model.ffn) instead",
     ""},
    {"model.moe.every", SpecKind::Integer, "1",
     "experts in the layers whose number, from 1, is a multiple of this; an MLP in the others", ""},
    {"model.moe.selection_bias", SpecKind::Boolean, "false",
     "add a vector to the scores to choose experts; gates do not see it, and it is not trained", ""},
    {"model.moe.groups", SpecKind::Integer, "1", "groups of experts; a token chooses among the best of them",
     ""},
    {"model.moe.groups_kept", SpecKind::Integer, "1", "how many groups are the best", ""},
    {"model.moe.group_score", SpecKind::Choice, "maximum", "score of a group: of its experts' scores",
     "maximum|sum_of_best_two"},
    {"model.moe.allow_constant_gate", SpecKind::Boolean, "false", "allow top_k = 1 with renormalize", ""},

    {"losses.balance", SpecKind::Number, "0",
     "weight of the Switch balance loss (per assignment: uniform is 1)", ""},
    {"losses.router_z", SpecKind::Number, "0", "weight of the router z-loss", ""},

    {"optimizer.kind", SpecKind::Choice, "adamw", "the optimizer", "adamw"},
    {"optimizer.beta1", SpecKind::Number, "0.9", "decay of the first moment", ""},
    {"optimizer.beta2", SpecKind::Number, "0.95", "decay of the second moment", ""},
    {"optimizer.epsilon", SpecKind::Number, "1e-8", "added to the root of the second moment", ""},
    {"optimizer.weight_decay", SpecKind::Number, "0.1", "decoupled weight decay of matrices", ""},
    {"optimizer.clip", SpecKind::Number, "1.0", "limit of the global gradient norm; 0: no clipping", ""},

    {"schedule.kind", SpecKind::Choice, "cosine", "shape of the learning rate", "cosine|linear|wsd|constant"},
    {"schedule.warmup", SpecKind::IntegerOrText, "", "tokens (1M), a share of the horizon (2%), or clip", ""},
    {"schedule.floor", SpecKind::Number, "0.1", "last learning rate, as floor_kind says", ""},
    {"schedule.floor_kind", SpecKind::Choice, "relative", "floor is a share of lr, or a rate",
     "relative|absolute"},
    {"schedule.decay", SpecKind::Number, "0.2", "share of the horizon in which wsd decays", ""},
    {"schedule.decay_shape", SpecKind::Choice, "1-sqrt", "shape of wsd's decay", "linear|1-sqrt"},

    {"sparsity.targets", SpecKind::TextList, "",
     "weights that are masked: roles (attention, mlp, experts, shared) or names with *; sparsity may be a "
     "list of rules",
     ""},
    {"sparsity.density", SpecKind::Number, "", "share of kept weights of the targets together", ""},
    {"sparsity.distribution", SpecKind::Choice, "uniform", "how densities differ between layers",
     "uniform|erk"},
    {"sparsity.distribution.attention_to_mlp", SpecKind::Number, "",
     "instead: density of attention over density of all other targets", ""},
    {"sparsity.pattern", SpecKind::Choice, "unstructured", "which sets of weights are kept", "unstructured"},
    {"sparsity.pattern.n", SpecKind::Integer, "", "instead: n of m neighbours along the inputs", ""},
    {"sparsity.pattern.m", SpecKind::Integer, "", "see n", ""},
    {"sparsity.pattern.block", SpecKind::IntegerList, "", "instead: whole blocks, [rows, columns]", ""},
    {"sparsity.method", SpecKind::Choice, "static", "how masks move", "static|set|rigl|gradual"},
    {"sparsity.update.every", SpecKind::IntegerOrText, "100 steps",
     "steps between updates of the masks (100 or 100 steps)", ""},
    {"sparsity.update.fraction.start", SpecKind::Number, "0.1",
     "share of kept weights that the first update replaces", ""},
    {"sparsity.update.fraction.end", SpecKind::Number, "0.005", "and the last one", ""},
    {"sparsity.update.fraction.schedule", SpecKind::Choice, "cosine", "between them",
     "cosine|linear|constant"},
    {"sparsity.update.until", SpecKind::Number, "1", "share of the horizon after which masks stay", ""},
    {"sparsity.update.drop", SpecKind::Choice, "magnitude",
     "which weights go: the smallest, the smallest of each sign, or all but a sample that favours |w|^3",
     "magnitude|signed|soft"},
    {"sparsity.update.grow", SpecKind::Choice, "random (set), gradient (rigl)", "which weights come",
     "random|gradient"},
    {"sparsity.regrown.value", SpecKind::Choice, "zero", "value of a grown weight", "zero"},
    {"sparsity.regrown.moments", SpecKind::Choice, "zero", "its moments", "zero"},
    {"sparsity.regrown.step", SpecKind::Integer, "the run's step",
     "its step in the optimizer's corrections; with it every weight counts its own steps", ""},
    {"sparsity.regrown.ramp", SpecKind::Integer, "0", "steps over which its first moment is damped", ""},
    {"sparsity.break_even", SpecKind::Number, "measured on the compiling machine",
     "largest percentage of kept weights at which kernels skip zeros; 0: never", ""},

    {"train.batch", SpecKind::Integer, "8", "sequences of a micro-batch (the bound dimension `batch`)", ""},
    {"train.seq", SpecKind::Integer, "256", "tokens of a sequence (the bound dimension `seq`)", ""},
    {"train.batch_tokens", SpecKind::Integer, "batch * seq", "tokens of an optimizer step", ""},
    {"train.tokens", SpecKind::Integer, "", "horizon: the tokens the schedule is made for; --tokens wins",
     ""},
    {"train.lr", SpecKind::Number, "3e-4", "peak learning rate", ""},
    {"train.seed", SpecKind::Integer, "1", "seed of the initial weights; --seed wins", ""},

    {"data.mode", SpecKind::Choice, "concatenate", "windows over joined documents, or one document a window",
     "concatenate|document"},
    {"data.unique_tokens", SpecKind::Integer, "0", "nested prefix of the permuted documents; 0: all", ""},
    {"data.unique_windows", SpecKind::Integer, "0", "the same prefix as a number of windows; 0: all", ""},
    {"data.seed", SpecKind::Integer, "0", "seed of the data's order", ""},
    {"data.reshuffle", SpecKind::Boolean, "true", "a fresh order every epoch", ""},

    {"evaluation.every_tokens", SpecKind::Integer, "a tenth of the horizon", "tokens between evaluations",
     ""},
    {"evaluation.at_tokens", SpecKind::IntegerList, "", "token budgets at which to evaluate", ""},
    {"evaluation.windows", SpecKind::Integer, "0", "windows of the validation split to use; 0: all", ""},
    {"checkpoint.every_steps", SpecKind::Integer, "250", "steps between checkpoints", ""},
    {"checkpoint.keep", SpecKind::Integer, "2", "checkpoints kept besides the best", ""},
    {"log.every_steps", SpecKind::Integer, "10", "steps between lines of metrics", ""},
};

/// The path without the number of a list's element.
std::string registeredPath(llvm::StringRef path) {
  const std::string section = specListOf(path);
  if (section.empty())
    return path.str();
  const llvm::StringRef rest = path.split('.').second.split('.').second;
  return rest.empty() ? section : section + "." + rest.str();
}

llvm::StringRef lastWord(llvm::StringRef path) {
  return path.rsplit('.').second.empty() ? path : path.rsplit('.').second;
}

} // namespace

llvm::ArrayRef<SpecKey> specKeys() {
  return keys;
}

bool isSpecList(llvm::StringRef section) {
  return section == "sparsity";
}

std::string specListOf(llvm::StringRef path) {
  auto [section, rest] = path.split('.');
  const llvm::StringRef number = rest.split('.').first;
  const bool isNumber = !number.empty() && number.size() < 4 && llvm::all_of(number, llvm::isDigit);
  return isSpecList(section) && isNumber ? section.str() : "";
}

const SpecKey *findSpecKey(llvm::StringRef path) {
  const std::string registered = registeredPath(path);
  const auto *found = llvm::find_if(keys, [&](const SpecKey &key) { return key.path == registered; });
  return found == std::end(keys) ? nullptr : found;
}

bool isSpecSection(llvm::StringRef path) {
  std::string prefix = registeredPath(path) + ".";
  return llvm::any_of(keys, [&](const SpecKey &key) { return key.path.starts_with(prefix); });
}

std::string nearestSpecKey(llvm::StringRef path) {
  unsigned best = std::numeric_limits<unsigned>::max();
  llvm::StringRef nearest;
  auto consider = [&](llvm::StringRef candidate) {
    // A key nested wrongly has the right last word; count a wrong section as one edit, not as its letters.
    unsigned distance =
        std::min(path.edit_distance(candidate), 1 + lastWord(path).edit_distance(lastWord(candidate)));
    if (distance < best)
      best = distance, nearest = candidate;
  };
  for (const SpecKey &key : keys) {
    consider(key.path);
    for (size_t dot = key.path.find('.'); dot != llvm::StringRef::npos; dot = key.path.find('.', dot + 1))
      consider(key.path.take_front(dot));
  }
  return nearest.str();
}

std::string expectedText(const SpecKey &key) {
  switch (key.kind) {
  case SpecKind::Integer:
    return "an integer (12, 30_008, 2M, 1e6)";
  case SpecKind::Number:
    return "a number (0.1, 3e-4)";
  case SpecKind::Boolean:
    return "true or false";
  case SpecKind::Text:
    return "a text";
  case SpecKind::IntegerList:
    return "a list of integers ([1M, 2M])";
  case SpecKind::TextList:
    return "a list of names ([attention, mlp])";
  case SpecKind::IntegerOrText:
    return key.description.str();
  case SpecKind::Choice: {
    std::string text = "one of ";
    for (char letter : key.choices)
      text += letter == '|' ? std::string(", ") : std::string(1, letter);
    return text;
  }
  }
  return "";
}

std::string specSchemaText() {
  std::string text;
  for (const SpecKey &key : keys)
    text +=
        absl::StrFormat("%-30s %-24s %s\n", std::string(key.path.data(), key.path.size()),
                        key.defaultText.empty() ? std::string("-") : key.defaultText.str(),
                        key.kind == SpecKind::Choice ? key.description.str() + " (" + key.choices.str() + ")"
                                                     : key.description.str());
  return text;
}

} // namespace sluice
