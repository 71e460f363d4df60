#include "runtime/train/TrainingConfig.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/train/Count.h"

#include "absl/strings/numbers.h"
#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

using nlohmann::json;

const std::vector<std::string> sectionKeys = {"batch_tokens", "tokens",     "lr",     "seed",
                                              "optimizer",    "schedule",   "losses", "data",
                                              "evaluation",   "checkpoint", "log",    "sparsity"};

Status checkKeys(const json &object, const std::vector<std::string> &known, const std::string &path) {
  if (!object.is_object())
    return usageError(path, ": expected an object, found ", object.type_name());
  for (const auto &[key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end())
      continue;
    std::string nearest = nearestName(key, known);
    return usageError(path, ".", key, ": expected a known key, found '", key, "'",
                      nearest.empty() ? "" : concat("; did you mean '", nearest, "'?"));
  }
  return absl::OkStatus();
}

/// Reads typed members of one object, naming the path in errors.
class Section {
public:
  Section(const json &object, std::string path) : object(object), path(std::move(path)) {}

  Status count(const char *key, int64_t &target, int64_t least) const {
    const json *value = find(key);
    if (!value)
      return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(target, countOf(*value, concat(path, ".", key)));
    if (target < least)
      return usageError(path, ".", key, ": expected at least ", least, ", found ", target);
    return absl::OkStatus();
  }

  Status number(const char *key, double &target) const {
    const json *value = find(key);
    if (!value)
      return absl::OkStatus();
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      return usageError(path, ".", key, ": expected a number, found ", value->dump());
    target = value->get<double>();
    return absl::OkStatus();
  }

  Status flag(const char *key, bool &target) const {
    const json *value = find(key);
    if (!value)
      return absl::OkStatus();
    if (!value->is_boolean())
      return usageError(path, ".", key, ": expected true or false, found ", value->dump());
    target = value->get<bool>();
    return absl::OkStatus();
  }

  /// One of `names`; `target` becomes its index.
  template <typename Enum>
  Status choice(const char *key, const std::vector<std::string> &names, Enum &target) const {
    const json *value = find(key);
    if (!value)
      return absl::OkStatus();
    if (value->is_string())
      for (size_t index = 0; index < names.size(); ++index)
        if (value->get_ref<const std::string &>() == names[index]) {
          target = static_cast<Enum>(index);
          return absl::OkStatus();
        }
    std::string list;
    for (const std::string &name : names)
      list += concat(list.empty() ? "" : ", ", name);
    return usageError(path, ".", key, ": expected one of ", list, ", found ", value->dump());
  }

  const json *find(const char *key) const {
    auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  static StatusOr<int64_t> countOf(const json &value, const std::string &place) {
    if (value.is_number_integer())
      return value.get<int64_t>();
    if (value.is_number_float())
      return parseCount(value.dump(), place);
    if (value.is_string())
      return parseCount(value.get_ref<const std::string &>(), place);
    return usageError(place, ": expected a whole number, found ", value.dump());
  }

private:
  const json &object;
  std::string path;
};

StatusOr<Warmup> readWarmup(const json &value) {
  const std::string place = "schedule.warmup";
  if (value.is_string()) {
    const std::string &text = value.get_ref<const std::string &>();
    if (text == "clip")
      return Warmup{Warmup::Kind::Clip, 0};
    if (!text.empty() && text.back() == '%') {
      double percent = 0;
      if (!absl::SimpleAtod(text.substr(0, text.size() - 1), &percent) || !(percent >= 0 && percent <= 100))
        return usageError(place, ": expected a share such as \"2%\", found \"", text, "\"");
      return Warmup{Warmup::Kind::Fraction, percent / 100};
    }
  }
  SLUICE_ASSIGN_OR_RETURN(int64_t tokens, Section::countOf(value, place));
  if (tokens < 0)
    return usageError(place, ": expected a number of tokens, \"2%\" or \"clip\", found ", tokens);
  return Warmup{Warmup::Kind::Tokens, static_cast<double>(tokens)};
}

Status readSchedule(const json &object, ScheduleOptions &schedule) {
  SLUICE_RETURN_IF_ERROR(
      checkKeys(object, {"kind", "warmup", "floor", "floor_kind", "decay", "decay_shape"}, "schedule"));
  Section section(object, "schedule");
  SLUICE_RETURN_IF_ERROR(section.choice("kind", {"cosine", "linear", "wsd", "constant"}, schedule.kind));
  if (const json *warmup = section.find("warmup")) {
    SLUICE_ASSIGN_OR_RETURN(schedule.warmup, readWarmup(*warmup));
  }
  SLUICE_RETURN_IF_ERROR(section.number("floor", schedule.floor));
  int floorKind = 0;
  SLUICE_RETURN_IF_ERROR(section.choice("floor_kind", {"relative", "absolute"}, floorKind));
  schedule.floorAbsolute = floorKind == 1;
  SLUICE_RETURN_IF_ERROR(section.number("decay", schedule.decay));
  return section.choice("decay_shape", {"linear", "1-sqrt"}, schedule.decayShape);
}

Status readData(const json &object, TrainingConfig &config) {
  SLUICE_RETURN_IF_ERROR(
      checkKeys(object, {"mode", "unique_tokens", "unique_windows", "seed", "reshuffle"}, "data"));
  Section section(object, "data");
  SLUICE_RETURN_IF_ERROR(section.choice("mode", {"concatenate", "document"}, config.mode));
  int64_t unique = 0, windows = 0, seed = 0;
  SLUICE_RETURN_IF_ERROR(section.count("unique_tokens", unique, 0));
  SLUICE_RETURN_IF_ERROR(section.count("unique_windows", windows, 0));
  if (unique > 0 && windows > 0)
    return usageError("data.unique_windows: expected either unique_tokens or unique_windows, found ", unique,
                      " and ", windows);
  SLUICE_RETURN_IF_ERROR(section.count("seed", seed, 0));
  config.uniqueTokens = static_cast<uint64_t>(unique);
  config.uniqueWindows = static_cast<uint64_t>(windows);
  config.dataSeed = static_cast<uint64_t>(seed);
  return section.flag("reshuffle", config.reshuffle);
}

Status readEvaluation(const json &object, TrainingConfig &config) {
  SLUICE_RETURN_IF_ERROR(checkKeys(object, {"every_tokens", "at_tokens", "windows"}, "evaluation"));
  Section section(object, "evaluation");
  SLUICE_RETURN_IF_ERROR(section.count("every_tokens", config.evaluateEveryTokens, 0));
  SLUICE_RETURN_IF_ERROR(section.count("windows", config.evaluationWindows, 0));
  if (const json *list = section.find("at_tokens")) {
    if (!list->is_array())
      return usageError("evaluation.at_tokens: expected a list, found ", list->dump());
    for (const json &item : *list) {
      SLUICE_ASSIGN_OR_RETURN(int64_t tokens, Section::countOf(item, "evaluation.at_tokens"));
      config.evaluateAtTokens.push_back(tokens);
    }
  }
  return absl::OkStatus();
}

Status readLosses(const json &object, TrainingConfig &config) {
  if (!object.is_object())
    return usageError("losses: expected an object of weights, found ", object.type_name());
  for (const auto &[name, weight] : object.items()) {
    if (!weight.is_number())
      return usageError("losses.", name, ": expected a weight, found ", weight.dump());
    config.lossWeights.emplace_back(name, weight.get<double>());
  }
  return absl::OkStatus();
}

/// What one rule says of a run: the rest of it is compiled into the program.
Status readMaskRule(const json &rule, const std::string &path, MaskScheduleOptions &masks) {
  Section section(rule, path);
  int method = 0, grow = -1;
  SLUICE_RETURN_IF_ERROR(section.choice("method", {"static", "set", "rigl", "gradual"}, method));
  SLUICE_RETURN_IF_ERROR(section.choice("grow", {"random", "gradient", "none"}, grow));
  masks.moves |= method != 0;
  masks.byGradient |= grow < 0 ? method == 2 : grow == 1;
  return absl::OkStatus();
}

/// One rule, or a list of them under `rules`; the schedule is shared.
Status readMasks(const json &object, MaskScheduleOptions &masks) {
  static const std::vector<std::string> ruleKeys = {"targets", "density", "distribution", "attention_to_mlp",
                                                    "pattern", "method",  "drop",         "grow"},
                                        sharedKeys = {"every", "start",   "end",  "schedule",
                                                      "until", "restart", "ramp", "break_even"};
  std::vector<std::string> known = sharedKeys;
  const auto rules = object.is_object() ? object.find("rules") : object.end();
  if (object.is_object() && rules != object.end()) {
    known.push_back("rules");
    if (!rules->is_array())
      return usageError("sparsity.rules: expected a list, found ", rules->type_name());
    for (const json &rule : *rules) {
      SLUICE_RETURN_IF_ERROR(checkKeys(rule, ruleKeys, "sparsity.rules"));
      SLUICE_RETURN_IF_ERROR(readMaskRule(rule, "sparsity.rules", masks));
    }
  } else {
    known.insert(known.end(), ruleKeys.begin(), ruleKeys.end());
  }
  SLUICE_RETURN_IF_ERROR(checkKeys(object, known, "sparsity"));
  if (rules == object.end())
    SLUICE_RETURN_IF_ERROR(readMaskRule(object, "sparsity", masks));
  Section section(object, "sparsity");
  SLUICE_RETURN_IF_ERROR(section.count("every", masks.everySteps, 1));
  SLUICE_RETURN_IF_ERROR(section.number("start", masks.start));
  SLUICE_RETURN_IF_ERROR(section.number("end", masks.end));
  SLUICE_RETURN_IF_ERROR(section.choice("schedule", {"cosine", "linear", "constant"}, masks.shape));
  SLUICE_RETURN_IF_ERROR(section.number("until", masks.until));
  for (auto [key, value] : {std::pair("start", masks.start), {"end", masks.end}})
    if (!(value >= 0 && value <= 1))
      return usageError("sparsity.update.fraction.", key, ": expected a share between 0 and 1, found ",
                        value);
  if (!(masks.until > 0 && masks.until <= 1))
    return usageError("sparsity.update.until: expected a share of the horizon above 0 and at most 1, found ",
                      masks.until);
  return absl::OkStatus();
}

/// Applies "train.lr=3e-4" or "schedule.kind=linear" to the training section.
Status applySetting(json &section, const std::string &setting) {
  size_t equals = setting.find('=');
  std::string path = setting.substr(0, equals);
  std::string head = path.substr(0, path.find('.'));
  if (head == "optimizer" || head == "losses" || head == "sparsity")
    return usageError("--set: expected a key that is not compiled into the program, found '", path,
                      "'; change the spec and compile again");
  static const std::vector<std::string> open = {"train",      "schedule",   "data",
                                                "evaluation", "checkpoint", "log"};
  if (equals == std::string::npos || path.size() == head.size() ||
      std::find(open.begin(), open.end(), head) == open.end())
    return usageError("--set: expected KEY=VALUE with a key of train, schedule, data, evaluation, checkpoint "
                      "or log, found '",
                      setting, "'; other keys change the model, so set them when it is compiled");
  if (head == "train")
    path = path.substr(head.size() + 1);
  std::string text = setting.substr(equals + 1);
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded())
    value = text;
  size_t dot = path.find('.');
  if (dot == std::string::npos) {
    section[path] = value;
    return absl::OkStatus();
  }
  json &object = section[path.substr(0, dot)];
  if (!object.is_null() && !object.is_object())
    return usageError("--set: expected a section at '", path.substr(0, dot), "', found ", object.dump());
  object[path.substr(dot + 1)] = value;
  return absl::OkStatus();
}

/// Every value of the configuration, so that a run's record needs no knowledge of defaults.
json resolve(const TrainingConfig &config, const json &section) {
  static constexpr const char *kinds[] = {"cosine", "linear", "wsd", "constant"};
  const ScheduleOptions &schedule = config.schedule;
  json warmup;
  switch (schedule.warmup.kind) {
  case Warmup::Kind::Clip:
    warmup = "clip";
    break;
  case Warmup::Kind::Fraction:
    warmup = absl::StrFormat("%.17g%%", schedule.warmup.amount * 100);
    break;
  case Warmup::Kind::Tokens:
    warmup = static_cast<int64_t>(schedule.warmup.amount);
    break;
  }
  json resolved = {
      {"batch_tokens", config.batchTokens},
      {"tokens", config.tokens},
      {"lr", config.learningRate},
      {"seed", config.seed},
      {"optimizer", section.value("optimizer", json::object())},
      {"losses", section.value("losses", json::object())},
      {"schedule",
       {{"kind", kinds[static_cast<int>(schedule.kind)]},
        {"warmup", warmup},
        {"floor", schedule.floor},
        {"floor_kind", schedule.floorAbsolute ? "absolute" : "relative"},
        {"decay", schedule.decay},
        {"decay_shape", schedule.decayShape == DecayShape::Linear ? "linear" : "1-sqrt"}}},
      {"data",
       {{"mode", config.mode == WindowMode::Concatenate ? "concatenate" : "document"},
        {"unique_tokens", config.uniqueTokens},
        {"unique_windows", config.uniqueWindows},
        {"seed", config.dataSeed},
        {"reshuffle", config.reshuffle}}},
      {"evaluation",
       {{"every_tokens", config.evaluateEveryTokens},
        {"at_tokens", config.evaluateAtTokens},
        {"windows", config.evaluationWindows}}},
      {"checkpoint", {{"every_steps", config.checkpointEverySteps}, {"keep", config.keepCheckpoints}}},
      {"log", {{"every_steps", config.logEverySteps}}},
  };
  if (auto sparsity = section.find("sparsity"); sparsity != section.end())
    resolved["sparsity"] = *sparsity;
  return resolved;
}

} // namespace

StatusOr<TrainingConfig> readTrainingConfig(const std::string &text, const TrainingOverrides &overrides) {
  if (text.empty())
    return usageError(
        "the executable has no training section; expected one, found none; add 'train:' to the spec and "
        "compile again");
  SLUICE_ASSIGN_OR_RETURN(json section, parseStrictJson(text, "training section"));
  if (!section.is_object())
    return usageError("train: expected an object, found ", section.type_name());
  for (const std::string &setting : overrides.settings)
    SLUICE_RETURN_IF_ERROR(applySetting(section, setting));
  SLUICE_RETURN_IF_ERROR(checkKeys(section, sectionKeys, "train"));

  TrainingConfig config;
  Section top(section, "train");
  SLUICE_RETURN_IF_ERROR(top.count("batch_tokens", config.batchTokens, 1));
  SLUICE_RETURN_IF_ERROR(top.count("tokens", config.tokens, 1));
  SLUICE_RETURN_IF_ERROR(top.number("lr", config.learningRate));
  SLUICE_RETURN_IF_ERROR(top.count("seed", config.seed, 0));
  if (overrides.tokens)
    config.tokens = *overrides.tokens;
  if (overrides.seed)
    config.seed = *overrides.seed;
  if (config.batchTokens < 1)
    return usageError("train.batch_tokens: expected the tokens of a step, found none");
  if (config.tokens < 1)
    return usageError(
        "train.tokens: expected the horizon of the run, found none; give --tokens, e.g. --tokens 2M");
  if (!(config.learningRate > 0))
    return usageError("train.lr: expected a positive learning rate, found ", config.learningRate);
  config.evaluateEveryTokens = (config.tokens + 9) / 10;

  if (const json *schedule = top.find("schedule"))
    SLUICE_RETURN_IF_ERROR(readSchedule(*schedule, config.schedule));
  if (const json *sparsity = top.find("sparsity"))
    SLUICE_RETURN_IF_ERROR(readMasks(*sparsity, config.masks));
  if (const json *data = top.find("data"))
    SLUICE_RETURN_IF_ERROR(readData(*data, config));
  if (const json *evaluation = top.find("evaluation"))
    SLUICE_RETURN_IF_ERROR(readEvaluation(*evaluation, config));
  if (const json *losses = top.find("losses"))
    SLUICE_RETURN_IF_ERROR(readLosses(*losses, config));
  if (const json *checkpoint = top.find("checkpoint")) {
    SLUICE_RETURN_IF_ERROR(checkKeys(*checkpoint, {"every_steps", "keep"}, "checkpoint"));
    Section keys(*checkpoint, "checkpoint");
    int64_t keep = config.keepCheckpoints;
    SLUICE_RETURN_IF_ERROR(keys.count("every_steps", config.checkpointEverySteps, 1));
    SLUICE_RETURN_IF_ERROR(keys.count("keep", keep, 1));
    config.keepCheckpoints = static_cast<int>(std::min<int64_t>(keep, 1 << 20));
  }
  if (const json *log = top.find("log")) {
    SLUICE_RETURN_IF_ERROR(checkKeys(*log, {"every_steps"}, "log"));
    SLUICE_RETURN_IF_ERROR(Section(*log, "log").count("every_steps", config.logEverySteps, 1));
  }
  SLUICE_RETURN_IF_ERROR(Schedule::create(config.schedule, config.learningRate,
                                          config.stepsFor(config.tokens), config.batchTokens)
                             .status());
  config.resolved = resolve(config, section);
  return config;
}

} // namespace sluice
