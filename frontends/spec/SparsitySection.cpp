#include "frontends/spec/SparsitySection.h"

namespace sluice {
namespace {

/// One rule; its keys stand below `prefix`: "sparsity", or "sparsity.1" in a list.
class RuleReader {
public:
  RuleReader(SpecReader &reader, const SpecTree &tree, std::string prefix)
      : reader(reader), tree(tree), prefix(std::move(prefix)) {
    rule.key = this->prefix;
  }

  Sparsity rule;
  llvm::json::Object own;    // what belongs to the rule
  llvm::json::Object shared; // the schedule and what happens to grown weights: one for all rules that move
  bool moves = false;
  std::optional<double> breakEven; // percent of kept weights; one for all rules

  void read() {
    for (const char *name : {"targets", "density"})
      reader.require(key(name));
    std::string distribution = "uniform";
    if (auto targets = tree.texts(key("targets")); targets.ok() && *targets)
      rule.targets = **targets;
    reader.read(key("density"), density);
    reader.read(key("distribution"), distribution);
    reader.read(key("method"), method);
    if (!reader.status().ok())
      return;
    const std::optional<Ratio> exact = parseDecimal(density);
    if (!exact || exact->numerator < 1 || exact->numerator > exact->denominator)
      wrong("density", "expected a decimal number above 0 and at most 1, found '", density, "'");
    else
      rule.density = *exact;
    readDistribution(distribution);
    readPattern();
    moves = method != "static", rule.gradual = method == "gradual";
    llvm::json::Array targets;
    for (const std::string &target : rule.targets)
      targets.push_back(target);
    own["targets"] = std::move(targets);
    own["density"] = density, own["pattern"] = rule.pattern, own["method"] = method;
    readUpdate();
    readShared();
    if (double percent = 0; tree.has(key("break_even"))) {
      reader.read(key("break_even"), percent);
      if (!(percent >= 0 && percent <= 100))
        wrong("break_even", "expected a percentage from 0 to 100, found ", percent);
      breakEven = percent;
    }
  }

private:
  std::string key(llvm::StringRef name) const { return prefix + "." + name.str(); }
  template <typename... Parts> void wrong(llvm::StringRef name, Parts &&...parts) {
    const std::string place = tree.place(key(name));
    reader.fail(usageError(place, place.empty() ? "" : ": ", "'", key(name), "': ", parts...));
  }

  void readDistribution(std::string distribution) {
    rule.distribution = distribution == "erk" ? Distribution::Erk : Distribution::Uniform;
    const std::string name = "distribution.attention_to_mlp";
    if (std::string text; tree.has(key(name))) {
      reader.read(key(name), text);
      const std::optional<Ratio> ratio = parseDecimal(text);
      rule.distribution = Distribution::AttentionToMlp;
      if (!ratio || ratio->numerator < 1)
        wrong(name, "expected a positive decimal number, found '", text, "'");
      else
        rule.attentionToMlp = *ratio;
      own["attention_to_mlp"] = text;
      distribution = "attention_to_mlp";
    }
    own["distribution"] = distribution;
  }

  void readPattern() {
    reader.read(key("pattern"), rule.pattern); // one word, or the keys below instead
    int64_t n = 0, m = 0;
    reader.read(key("pattern.n"), n);
    reader.read(key("pattern.m"), m);
    if (tree.has(key("pattern.n")) || tree.has(key("pattern.m"))) {
      if (n < 1 || m < n)
        wrong("pattern.n", "expected n of m with 1 <= n <= m, found ", n, " of ", m);
      else if (rule.density.numerator * m != rule.density.denominator * n)
        wrong("density", "expected ", n, "/", m, ", which the pattern keeps, found '", density, "'");
      rule.pattern = concat(n, ":", m);
    }
    if (auto block = tree.integers(key("pattern.block")); block.ok() && *block) {
      if (tree.has(key("pattern.n")))
        wrong("pattern.block", "expected n and m or block, found both");
      if ((*block)->size() != 2 || (**block)[0] < 1 || (**block)[1] < 1)
        wrong("pattern.block", "expected two positive sizes, [rows, columns], found another list");
      else
        rule.pattern = concat("block:", (**block)[0], "x", (**block)[1]);
    } else if (!block.ok()) {
      reader.fail(block.status());
    }
  }

  void readUpdate() {
    std::string drop = "magnitude", grow;
    reader.read(key("update.drop"), drop);
    reader.read(key("update.grow"), grow);
    const std::string ownGrowth = method == "rigl" ? "gradient" : method == "set" ? "random" : "none";
    if (!grow.empty() && ownGrowth == "none")
      wrong("update.grow", "expected no growth with the method ", method, ", found '", grow, "'");
    if (drop != "magnitude" && ownGrowth == "none")
      wrong("update.drop", "expected magnitude with the method ", method, ", found '", drop, "'");
    if (drop == "signed" && llvm::StringRef(rule.pattern).starts_with("block"))
      wrong("update.drop", "expected magnitude or soft with the pattern ", rule.pattern,
            ", found 'signed'; a block has no sign");
    own["drop"] = drop, own["grow"] = grow.empty() ? ownGrowth : grow;
  }

  void readShared() {
    std::string every = "100";
    reader.read(key("update.every"), every);
    llvm::StringRef steps = llvm::StringRef(every).trim();
    steps.consume_back("steps");
    int64_t interval = 0;
    if (steps.trim().getAsInteger(10, interval) || interval < 1)
      wrong("update.every", "expected at least 1 step, e.g. 100 steps, found '", every, "'");
    shared["every"] = interval;
    for (auto [name, target] : {std::pair("update.fraction.start", "start"),
                                {"update.fraction.end", "end"},
                                {"update.fraction.schedule", "schedule"},
                                {"update.until", "until"},
                                {"regrown.step", "restart"},
                                {"regrown.ramp", "ramp"}})
      if (tree.has(key(name)))
        reader.copyAs(shared, key(name), target);
    for (const char *name : {"regrown.step", "regrown.ramp"}) {
      int64_t steps = 0;
      reader.read(key(name), steps);
      if (steps < 0)
        wrong(name, "expected at least 0 steps, found ", steps);
    }
    for (const char *name : {"regrown.value", "regrown.moments"}) {
      std::string zero;
      reader.read(key(name), zero); // zero is all that there is; another word is an error
    }
    if (tree.has(key("regrown.ramp")) && !tree.has(key("regrown.step")))
      wrong("regrown.ramp", "expected ", key("regrown.step"), " beside it, found none");
  }

  SpecReader &reader;
  const SpecTree &tree;
  std::string prefix, density, method = "static";
};

/// The first key in which two schedules differ.
std::string differingKey(const llvm::json::Object &a, const llvm::json::Object &b) {
  for (const char *name : {"every", "start", "end", "schedule", "until", "restart", "ramp"}) {
    const llvm::json::Value *left = a.get(name), *right = b.get(name);
    if (static_cast<bool>(left) != static_cast<bool>(right) || (left && *left != *right))
      return name;
  }
  return "";
}

} // namespace

llvm::json::Object readSparsity(SpecReader &reader, const SpecTree &tree, std::vector<Sparsity> &rules) {
  const size_t count = tree.listSize("sparsity");
  if (count == 0) {
    RuleReader only(reader, tree, "sparsity");
    only.read();
    rules.push_back(only.rule);
    for (auto &[key, value] : only.shared)
      only.own[key] = value;
    if (only.breakEven)
      only.own["break_even"] = *only.breakEven;
    return std::move(only.own);
  }
  llvm::json::Object object;
  for (const auto &[key, value] : tree.all())
    if (llvm::StringRef(key).starts_with("sparsity.") && specListOf(key).empty()) {
      reader.fail(usageError(value.place, ": '", key, "': expected the number of a rule, as in sparsity.0.",
                             key.substr(9), ", found none; `sparsity` is a list of ", count, " rules"));
      return object;
    }
  llvm::json::Array list;
  std::string first; // the first rule that moves
  std::optional<double> breakEven;
  for (size_t number = 0; number < count; ++number) {
    RuleReader one(reader, tree, concat("sparsity.", number));
    one.read();
    rules.push_back(one.rule);
    list.push_back(std::move(one.own));
    if (number == 0)
      breakEven = one.breakEven;
    else if (breakEven != one.breakEven)
      reader.fail(
          usageError(tree.place(one.rule.key + ".targets"), ": '", one.rule.key,
                     "': expected the break_even of sparsity.0, found another; it is of the machine, not of "
                     "a rule"));
    if (!one.moves)
      continue;
    if (first.empty()) {
      first = one.rule.key, object = std::move(one.shared);
    } else if (const std::string key = differingKey(object, one.shared); !key.empty()) {
      const std::string place = tree.place(one.rule.key + ".targets");
      reader.fail(usageError(place, place.empty() ? "" : ": ", "'", one.rule.key,
                             "': expected the schedule of ", first, ", found another '", key,
                             "'; all masks of a model that move are updated together"));
    }
  }
  object["rules"] = std::move(list);
  if (breakEven)
    object["break_even"] = *breakEven;
  return object;
}

} // namespace sluice
