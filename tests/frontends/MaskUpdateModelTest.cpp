// The update of masks inside models against a plain reference of the whole update, fed with the model's own
// weights and gradients, over five updates: every method, drop and pattern.
#include "tests/frontends/MaskModels.h"

#include "runtime/support/Philox.h"

#include <cmath>

namespace sluice::test {
namespace {

/// The whole update of one matrix in plain words: which units (weights or blocks) stay, and which come.
struct Reference {
  std::vector<std::vector<int64_t>> units, groups; // weights of a unit; units of a group
  std::vector<bool> kept, isNew;                   // by unit
  using Order = std::vector<std::pair<double, int64_t>>;

  Reference(const std::string &pattern, int64_t rows, int64_t columns) {
    const bool blocks = pattern == "block:2x2";
    for (int64_t row = 0; row < rows; row += blocks ? 2 : 1)
      for (int64_t column = 0; column < columns; column += blocks ? 2 : 1) {
        if (units.empty() || (pattern == "2:4" && column % 4 == 0))
          groups.emplace_back();
        groups.back().push_back(static_cast<int64_t>(units.size()));
        const int64_t at = row * columns + column;
        units.push_back(blocks ? std::vector<int64_t>{at, at + 1, at + columns, at + columns + 1}
                               : std::vector<int64_t>{at});
      }
    kept.resize(units.size()), isNew.resize(units.size());
  }
  static double square(const HostTensor &x, int64_t first, const std::vector<int64_t> &unit) {
    double sum = 0;
    for (int64_t weight : unit)
      sum += x[first + weight] * x[first + weight];
    return sum;
  }
  int64_t count(const std::vector<int64_t> &group) const {
    return llvm::count_if(group, [&](int64_t unit) { return kept[static_cast<size_t>(unit)]; });
  }
  /// The `count` first of `order` leave, or come.
  void take(Order order, int64_t count, bool come) {
    std::sort(order.begin(), order.end());
    for (int64_t k = 0; k < count; ++k) {
      const auto unit = static_cast<size_t>(order[static_cast<size_t>(k)].second);
      kept[unit] = come, isNew[unit] = come;
    }
  }
};

struct MethodCase {
  const char *method, *drop, *pattern;
};

TEST_F(MaskModel, UpdatesAgainstAPlainReference) {
  for (double percent : {25.0, 100.0}) // 100: attention's weights in kept form
    for (MethodCase method : {MethodCase{"set", "magnitude", "unstructured"},
                              {"set", "signed", "unstructured"},
                              {"set", "soft", "unstructured"},
                              {"rigl", "magnitude", "unstructured"},
                              {"gradual", "magnitude", "unstructured"},
                              {"set", "magnitude", "2:4"},
                              {"set", "soft", "2:4"},
                              {"rigl", "signed", "2:4"},
                              {"gradual", "magnitude", "2:4"},
                              {"set", "magnitude", "block:2x2"},
                              {"rigl", "soft", "block:2x2"},
                              {"gradual", "magnitude", "block:2x2"}}) {
      SCOPED_TRACE(std::string(method.method) + " " + method.drop + " " + method.pattern);
      breakEven = percent;
      const std::string name = method.method, drop = method.drop, pattern = method.pattern;
      DecoderConfig config = tinyMoe();
      config.moe->ffn = 8; // a multiple of four
      config.sparsity = {uniform(pattern == "unstructured" ? Ratio{3, 10} : Ratio{1, 2})};
      config.sparsity[0].targets = {"attention", "experts"};
      config.sparsity[0].gradual = name == "gradual";
      config.sparsity[0].pattern = pattern;
      OwningOpRef<ModuleOp> module = build(
          config, Phase::Plan,
          llvm::json::Object{{"method", method.method}, {"drop", method.drop}, {"restart", 5}, {"ramp", 20}});
      TensorMap states = initialStates(*module, 6);
      run(*module, "init", {{"seed", scalar(7, {1})}}, states);
      for (const auto &[state, value] : initialStates(*module, 7))
        ASSERT_EQ(states.at(state).values, value.values) << state;
      std::vector<ParameterInfo> parameters = parametersOf(*module);
      int64_t moved = 0;
      for (int64_t step = 1; step <= 5; ++step) {
        run(*module, name == "rigl" ? "accumulate_dense" : "accumulate", batch(), states);
        run(*module, "apply", applyInputs(static_cast<double>(step)), states);
        const TensorMap before = states;
        const int64_t amount = 123456789 * step;
        // The other of the two shares is one that would show.
        run(*module, "update_topology",
            {{"seed", scalar(7, {1})},
             {"step", scalar(static_cast<double>(step), {1})},
             {"amount", scalar(name == "gradual" ? 1e9 : static_cast<double>(amount), {1})},
             {"removed", scalar(name == "gradual" ? static_cast<double>(amount) : 1e9, {1})}},
            states);
        int64_t changed = 0;
        for (const ParameterInfo &info : parameters) {
          if (!info.mask)
            continue;
          const HostTensor &weight = before.at(info.name), &old = before.at(maskName(info.name)),
                           &mask = states.at(maskName(info.name));
          const auto philoxStep = static_cast<uint64_t>(step);
          const PhiloxStream stream(7, streamKey(maskName(info.name)), philoxStep),
              drops(7, streamKey(maskName(info.name) + ".drop"), philoxStep);
          const int64_t size = info.mask.matrixSize(), columns = info.mask.getShape().back();
          for (int64_t first = 0; first < weight.size(); first += size) {
            Reference reference(pattern, size / columns, columns);
            const auto unitCount = static_cast<int64_t>(reference.units.size());
            Reference::Order below, others;
            for (int64_t unit = 0; unit < unitCount; ++unit) {
              const std::vector<int64_t> &weights = reference.units[static_cast<size_t>(unit)];
              const int64_t corner = first + weights[0];
              for (int64_t i : weights)
                ASSERT_EQ(old[first + i], old[corner]);
              reference.kept[static_cast<size_t>(unit)] = old[corner] != 0;
              if (old[corner] == 0)
                continue;
              const double square = Reference::square(weight, first, weights);
              // Kept ones are a sample with probabilities like |w|^3: an exponential draw over |w|^3,
              // smallest first.
              const double draw = (drops.bits(static_cast<uint64_t>(corner)) + 0.5) / 4294967296.0;
              const double key = drop == "soft" ? std::pow(square, 1.5) / -std::log(draw) : std::sqrt(square);
              (drop == "signed" && weight[corner] < 0 ? below : others).emplace_back(key, unit);
            }
            auto share = [&](size_t count) {
              return (static_cast<int64_t>(count) * amount + 999999999) / 1000000000;
            };
            const auto groups = static_cast<int64_t>(reference.groups.size()), each = unitCount / groups;
            const auto block = static_cast<int64_t>(reference.units[0].size());
            int64_t target = info.mask.getKept() / block / groups; // units of a group
            if (name == "gradual") { // 64 weights of an expert end at ceil(19.2) = 20, and so on
              const int64_t end = pattern == "unstructured" ? (size * 3 + 9) / 10 : each / 2;
              target = each - (each - end) * amount / 1000000000;
              for (const std::vector<int64_t> &group : reference.groups) {
                Reference::Order own;
                for (const auto &entry : others)
                  if (llvm::is_contained(group, entry.second))
                    own.push_back(entry);
                reference.take(own, static_cast<int64_t>(own.size()) - target, false);
              }
            } else {
              reference.take(below, share(below.size()), false);
              reference.take(others, share(others.size()), false);
              for (const std::vector<int64_t> &group : reference.groups) {
                Reference::Order free;
                for (int64_t unit : group) {
                  if (reference.kept[static_cast<size_t>(unit)])
                    continue;
                  const std::vector<int64_t> &weights = reference.units[static_cast<size_t>(unit)];
                  const double gradient =
                      name == "rigl"
                          ? Reference::square(before.at(info.name + ".dense_gradient"), first, weights)
                          : 0;
                  const uint32_t draw = stream.bits(static_cast<uint64_t>(first + weights[0]));
                  free.emplace_back(gradient != 0 ? -gradient : name == "rigl" ? draw / 4 : draw, unit);
                }
                reference.take(free, target - reference.count(group), true);
              }
            }
            for (const std::vector<int64_t> &group : reference.groups)
              ASSERT_EQ(reference.count(group), target);
            for (int64_t unit = 0; unit < unitCount; ++unit)
              for (int64_t i : reference.units[static_cast<size_t>(unit)]) {
                const int64_t at = first + i;
                const bool keeps = reference.kept[static_cast<size_t>(unit)],
                           isNew = reference.isNew[static_cast<size_t>(unit)];
                changed += mask[at] != old[at];
                ASSERT_EQ(mask[at] != 0, keeps) << info.name << " " << at << " step " << step;
                for (const char *suffix : {"", ".exp_avg", ".exp_avg_sq"})
                  ASSERT_EQ(states.at(info.name + suffix)[at],
                            keeps && !isNew ? before.at(info.name + suffix)[at] : 0.0)
                      << info.name << suffix << " " << at;
                ASSERT_EQ(states.at(info.name + ".age")[at],
                          !keeps ? 0.0 : (isNew ? 5.0 : before.at(info.name + ".age")[at]));
              }
          }
        }
        moved += changed;
        EXPECT_TRUE(changed > 0 || name == "gradual") << step;
      }
      EXPECT_GT(moved, 0);
    }
}

} // namespace
} // namespace sluice::test
