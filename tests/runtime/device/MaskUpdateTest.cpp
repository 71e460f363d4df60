// The update of masks on the device against plain loops: every way to drop and to grow, for weights, n:m and
// blocks; and the keys of the soft drop against logarithms.
#include "runtime/support/Philox.h"
#include "runtime/support/SoftDrop.h"
#include "tests/runtime/device/CommandRunner.h"

#include <algorithm>
#include <cmath>

namespace sluice::test {
namespace {

using Bits = std::vector<uint8_t>;

Bits bitsOf(const std::vector<bool> &kept) {
  Bits bits((kept.size() + 63) / 64 * 8);
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i])
      bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1u << (i % 8));
  return bits;
}

struct Case {
  const char *drop, *grow, *pattern;
  bool aged;
  int64_t rows, columns, most, target;

  int64_t size() const { return rows * columns; }
  bool prunes() const { return std::string(grow) == "none"; }
};

/// The units of one matrix and their groups, by a pattern's words.
struct Units {
  std::vector<std::vector<size_t>> weights, groups; // weights of a unit; units of a group

  explicit Units(const Case &c) {
    const std::string pattern = c.pattern;
    const int64_t high = pattern == "block:2x3" ? 2 : 1, wide = pattern == "block:2x3" ? 3 : 1;
    for (int64_t row = 0; row < c.rows; row += high)
      for (int64_t column = 0; column < c.columns; column += wide) {
        if (weights.empty() || (pattern == "2:4" && column % 4 == 0))
          groups.emplace_back();
        groups.back().push_back(weights.size());
        weights.emplace_back();
        for (int64_t i = 0; i < high * wide; ++i)
          weights.back().push_back(static_cast<size_t>((row + i / wide) * c.columns + column + i % wide));
      }
  }
};

using Order = std::vector<std::pair<double, size_t>>;

/// What one update does to one matrix of weights `w` with whole gradients `g`; the matrix begins at weight
/// `first`.
class Expected {
public:
  Expected(const Case &c, const float *w, const float *g, size_t first, std::vector<bool> &kept,
           std::vector<bool> &isNew)
      : c(c), units(c), w(w), g(g), first(first), kept(kept), isNew(isNew) {}

  void update(int64_t amount) {
    const std::string drop = c.drop;
    const PhiloxStream draws(5, streamKey("w.mask"), 300), drops(5, streamKey("w.mask.drop"), 300);
    Order below, others;
    for (size_t unit = 0; unit < units.weights.size(); ++unit) {
      if (!isKept(unit))
        continue;
      const double square = squareOf(w, unit), draw = (drops.bits(firstOf(unit)) + 0.5) / 4294967296.0;
      (drop == "signed" && w[units.weights[unit][0]] < 0 ? below : others)
          .emplace_back(drop == "soft" ? std::pow(square, 1.5) / -std::log(draw) : square, unit);
    }
    if (c.prunes())
      return prune(others, amount);
    for (Order *order : {&below, &others})
      take(*order, (static_cast<int64_t>(order->size()) * amount + 999999999) / 1000000000, false);
    for (const std::vector<size_t> &group : units.groups) {
      Order free;
      for (size_t unit : group)
        if (!isKept(unit))
          free.emplace_back(growKey(draws.bits(firstOf(unit)), unit), unit);
      const int64_t wanted = each(c.most), there = static_cast<int64_t>(group.size() - free.size());
      take(free, wanted - there, true);
    }
  }

private:
  /// The largest gradients first, then those of none at random.
  double growKey(uint32_t draw, size_t unit) const {
    const double square = squareOf(g, unit);
    return std::string(c.grow) != "gradient" ? draw : square != 0 ? -square : draw / 4;
  }
  size_t firstOf(size_t unit) const { return first + units.weights[unit][0]; }
  bool isKept(size_t unit) const { return kept[firstOf(unit)]; }
  double squareOf(const float *x, size_t unit) const {
    double sum = 0;
    for (size_t weight : units.weights[unit])
      sum += double(x[weight]) * x[weight];
    return sum;
  }
  /// Units of a group when a matrix keeps so many weights.
  int64_t each(int64_t weights) const {
    return weights / static_cast<int64_t>(units.weights[0].size() * units.groups.size());
  }
  void take(Order order, int64_t count, bool come) {
    std::sort(order.begin(), order.end());
    for (int64_t k = 0; k < count; ++k)
      for (size_t weight : units.weights[order[static_cast<size_t>(k)].second])
        kept[first + weight] = come, isNew[first + weight] = come;
  }
  void prune(const Order &all, int64_t amount) {
    const int64_t stay = each(c.most) - (each(c.most) - each(c.target)) * amount / 1000000000;
    for (const std::vector<size_t> &group : units.groups) {
      Order own;
      for (const auto &entry : all)
        if (std::find(group.begin(), group.end(), entry.second) != group.end())
          own.push_back(entry);
      take(own, static_cast<int64_t>(own.size()) - stay, false);
    }
  }

  const Case &c;
  Units units;
  const float *w, *g;
  size_t first;
  std::vector<bool> &kept, &isNew;
};

/// A mask to begin with: the first units of each group, as many as are kept.
std::vector<bool> firstKept(const Case &c, int64_t matrices) {
  const Units units(c);
  const auto each = static_cast<size_t>(c.most) / units.weights[0].size() / units.groups.size();
  std::vector<bool> kept(static_cast<size_t>(matrices * c.size()));
  for (int64_t matrix = 0; matrix < matrices; ++matrix)
    for (const std::vector<size_t> &group : units.groups)
      for (size_t k = 0; k < each; ++k)
        // Every third unit, then the next of each three: not one connected piece.
        for (size_t weight : units.weights[group[group.size() % 3 == 0 ? k : k * 3 % group.size()]])
          kept[static_cast<size_t>(matrix * c.size()) + weight] = true;
  return kept;
}

TEST(MaskUpdate, AgainstAPlainReference) {
  const int64_t matrices = 3, amount = 234567891;
  for (const Case &c : {Case{"magnitude", "random", "unstructured", true, 1, 101, 34, 34},
                        {"signed", "random", "unstructured", false, 1, 101, 34, 34},
                        {"soft", "random", "unstructured", true, 1, 101, 34, 34},
                        {"magnitude", "gradient", "unstructured", true, 1, 101, 34, 34},
                        {"magnitude", "none", "unstructured", false, 1, 101, 101, 20},
                        {"magnitude", "random", "2:4", true, 5, 8, 20, 20},
                        {"signed", "gradient", "2:4", true, 5, 8, 20, 20},
                        {"soft", "random", "2:4", false, 5, 8, 20, 20},
                        {"magnitude", "none", "2:4", true, 5, 8, 40, 20},
                        {"magnitude", "random", "block:2x3", true, 10, 21, 90, 90},
                        {"magnitude", "gradient", "block:2x3", false, 10, 21, 90, 90},
                        {"soft", "gradient", "block:2x3", true, 10, 21, 90, 90},
                        {"magnitude", "none", "block:2x3", true, 10, 21, 210, 60}}) {
    SCOPED_TRACE(std::string(c.drop) + " " + c.grow + " " + c.pattern);
    const bool byGradient = std::string(c.grow) == "gradient";
    const int64_t n = matrices * c.size(), share = c.prunes() ? 3 * amount : amount;
    const std::vector<bool> kept = firstKept(c, matrices);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), true), matrices * c.most);
    Floats w = randomFloats(n, 1), m = randomFloats(n, 2), v = m, g = randomFloats(n, 3), age(w.size(), 8);
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = std::round(w[i] * 4) / 4; // ties
      g[i] = i < static_cast<size_t>(c.size()) ? 0
                                               : std::round(g[i] * 4) / 4; // the first matrix has no gradient
      if (!kept[i])
        w[i] = m[i] = v[i] = age[i] = 0;
    }
    CommandRunner runner;
    const Operand mask = runner.bytes(bitsOf(kept)), pw = runner.floats({n}, w), pm = runner.floats({n}, m),
                  pv = runner.floats({n}, v), seed = runner.longs({1}, {5}), step = runner.longs({1}, {300}),
                  much = runner.longs({1}, {share}), pa = runner.floats({n}, age), pg = runner.floats({n}, g);
    std::vector<Operand> inputs = {mask, pw, pm, pv, seed, step, much}, outputs = {mask, pw, pm, pv};
    if (c.aged)
      inputs.push_back(pa), outputs.push_back(pa);
    if (byGradient)
      inputs.push_back(pg);
    runner.add("update_mask", inputs, outputs,
               {text("stream", "w.mask"), text("drop", c.drop), text("grow", c.grow),
                text("pattern", c.pattern),
                text("shape", std::to_string(matrices) + "," + std::to_string(c.rows) + "," +
                                  std::to_string(c.columns)),
                flag("kept", c.most), flag("target", c.target), flag("has_age", c.aged), real("restart", 5)});
    runner.run();

    std::vector<bool> expected = kept, isNew(kept.size());
    for (int64_t e = 0; e < matrices; ++e)
      Expected(c, w.data() + e * c.size(), g.data() + e * c.size(), static_cast<size_t>(e * c.size()),
               expected, isNew)
          .update(share);
    EXPECT_NE(expected, kept);
    EXPECT_EQ(runner.readBytes(mask), bitsOf(expected));
    const Floats rw = runner.read(pw), rm = runner.read(pm), rv = runner.read(pv), ra = runner.read(pa);
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool old = expected[i] && !isNew[i];
      ASSERT_EQ(rw[i], old ? w[i] : 0.0f) << i;
      ASSERT_EQ(rm[i], old ? m[i] : 0.0f) << i;
      ASSERT_EQ(rv[i], old ? v[i] : 0.0f) << i;
      if (c.aged) {
        ASSERT_EQ(ra[i], !expected[i] ? 0.0f : (isNew[i] ? 5.0f : age[i])) << i;
      }
    }
  }
}

TEST(SoftDrop, LogarithmsAreExactToAFewUnits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t x = random() >> (i % 64) | 1;
    const long double exact = std::log2(static_cast<long double>(x)) * 4294967296.0L;
    const auto found = static_cast<long double>(fixedLog2(x));
    ASSERT_LE(found, exact + 1e-3L) << x;
    ASSERT_GE(found, exact - 3) << x;
  }
  EXPECT_EQ(fixedLog2(1), 0);
  EXPECT_EQ(fixedLog2(8), int64_t{3} << 32);
}

TEST(SoftDrop, KeysAreTheFormula) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const auto w = static_cast<float>(std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000,
                                                 static_cast<int>(random() % 200) - 100));
    const auto draw = static_cast<uint32_t>(random());
    const double u = (draw + 0.5) / 4294967296.0,
                 exact = (512 + 1.5 * std::log2(double(w) * w) - std::log2(-std::log2(u))) * 4194304;
    // -log2 u is off by up to 3 units of 2^-32, the logarithm of it by that over |log2 u| ln 2.
    ASSERT_NEAR(softDropKey(double(w) * w, draw), exact,
                2 + 3 * 4194304 / 4294967296.0 / 0.693 / -std::log2(u))
        << w << " " << draw;
  }
  EXPECT_EQ(softDropKey(0.0, 7), 0u);
  EXPECT_EQ(softDropKey(INFINITY, 7), ~uint32_t{0});
  EXPECT_EQ(softDropKey(NAN, 7), ~uint32_t{0});
}

TEST(SoftDrop, KeepsInProportionToTheCube) {
  // One of two weights stays: w = 2 against 1 with probability 8 / 9.
  int larger = 0;
  constexpr int draws = 20000;
  const PhiloxStream stream(3, streamKey("coin"));
  for (int i = 0; i < draws; ++i)
    larger += softDropKey(4.0, stream.bits(2 * static_cast<uint64_t>(i))) >
              softDropKey(1.0, stream.bits(2 * static_cast<uint64_t>(i) + 1));
  // Five standard deviations of the share: sqrt(8/81 / 20000) = 0.0022.
  EXPECT_NEAR(static_cast<double>(larger) / draws, 8.0 / 9, 0.011);
}

} // namespace
} // namespace sluice::test
