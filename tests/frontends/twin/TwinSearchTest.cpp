// The search for twins against plain enumeration, and budgets of compute against worked examples.
#include "frontends/twin/TwinSearch.h"
#include "frontends/twin/Budget.h"

#include "runtime/support/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>

namespace sluice {
namespace {

/// A random polynomial with non-negative coefficients, of the variables' degrees, over a random grid.
struct Case {
  std::vector<TwinVariable> variables;
  std::vector<Count> coefficients;
  uint64_t evaluations = 0;

  explicit Case(unsigned seed) {
    std::mt19937 random(seed);
    size_t terms = 1;
    for (size_t i = 0, count = 1 + random() % 3; i < count; ++i) {
      int64_t step = 1 + random() % 9, least = 1 + random() % 20;
      variables.push_back({"v" + std::to_string(i), least, least + static_cast<int64_t>(random() % 120), step,
                           static_cast<int>(1 + random() % 2)});
      terms *= static_cast<size_t>(variables.back().degree) + 1;
    }
    for (size_t i = 0; i < terms; ++i)
      coefficients.push_back(random() % 4 == 0 ? 0 : random() % 1000);
  }

  Count value(const TwinPoint &point) const {
    Count sum = 0;
    for (size_t term = 0; term < coefficients.size(); ++term) {
      Count product = coefficients[term];
      size_t rest = term;
      for (size_t i = 0; i < variables.size(); ++i) {
        size_t power = rest % (static_cast<size_t>(variables[i].degree) + 1);
        rest /= static_cast<size_t>(variables[i].degree) + 1;
        for (size_t times = 0; times < power; ++times)
          product *= static_cast<Count>(point[i]);
      }
      sum += product;
    }
    return sum;
  }

  std::vector<TwinPoint> all() const {
    std::vector<TwinPoint> points = {{}};
    for (const TwinVariable &variable : variables) {
      std::vector<TwinPoint> longer;
      for (const TwinPoint &point : points)
        for (int64_t value = variable.least; value <= variable.most; value += variable.step) {
          longer.push_back(point);
          longer.back().push_back(value);
        }
      points = std::move(longer);
    }
    return points;
  }
};

TEST(TwinSearch, EqualsPlainEnumeration) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Case model(seed);
    TwinCount count = [&](const TwinPoint &point) -> StatusOr<Count> {
      ++model.evaluations;
      return model.value(point);
    };
    StatusOr<CountPolynomial> polynomial = CountPolynomial::fit(model.variables, count);
    ASSERT_TRUE(polynomial.ok());
    EXPECT_LE(model.evaluations, 27u);
    std::vector<TwinPoint> points = model.all();
    for (const TwinPoint &point : points)
      ASSERT_EQ(toDecimal(polynomial->at(point)), toDecimal(model.value(point))) << seed;

    std::mt19937 random(seed);
    Count target = model.value(points[random() % points.size()]) + random() % 50;
    Count tolerance = target / (seed % 2 ? 1000 : 20);
    auto distance = [&](Count value) { return value > target ? value - target : target - value; };
    std::vector<TwinCandidate> expected;
    for (const TwinPoint &point : points)
      expected.push_back({point, model.value(point)});
    std::sort(expected.begin(), expected.end(), [&](const TwinCandidate &a, const TwinCandidate &b) {
      if (distance(a.count) != distance(b.count))
        return distance(a.count) < distance(b.count);
      return a.count != b.count ? a.count < b.count : a.point < b.point;
    });
    TwinAnswer answer = searchTwins(model.variables, *polynomial, target, tolerance, 1 << 20);
    size_t within = 0;
    while (within < expected.size() && distance(expected[within].count) <= tolerance)
      ++within;
    ASSERT_EQ(answer.within.size(), within) << seed;
    EXPECT_EQ(answer.withinCount, within);
    for (size_t i = 0; i < within; ++i)
      EXPECT_EQ(answer.within[i].point, expected[i].point) << seed << " " << i;
    for (size_t i = 0; i < answer.nearest.size(); ++i)
      EXPECT_EQ(toDecimal(distance(answer.nearest[i].count)), toDecimal(distance(expected[i].count))) << seed;
    EXPECT_EQ(answer.nearest.size(), std::min<size_t>(2, points.size()));

    TwinAnswer few = searchTwins(model.variables, *polynomial, target, tolerance, 3);
    EXPECT_EQ(few.withinCount, within);
    for (size_t i = 0; i < few.within.size(); ++i)
      EXPECT_EQ(few.within[i].point, expected[i].point);
  }
}

TEST(TwinSearch, ResidualsReadAsSignedNumbers) {
  EXPECT_EQ(residualText(14762240, 14766336), "-4,096");
  EXPECT_EQ(residualText(14786816, 14766336), "+20,480");
  EXPECT_EQ(residualText(5, 5), "0");
  EXPECT_EQ(residualPercent(14762240, 14766336), "-0.0277 %");
  EXPECT_EQ(residualPercent(14786816, 14766336), "+0.1387 %");
  EXPECT_EQ(residualPercent(5, 5), "exact");
}

TEST(Budget, LargeNumbersAsPeopleWriteThem) {
  for (auto [text, value] : {std::pair{"9.36e20", "936000000000000000000"}, std::pair{"2.15B", "2150000000"},
                             std::pair{"300_000", "300000"}, std::pair{"1,000", "1000"}, std::pair{"7", "7"},
                             std::pair{"2.5k", "2500"}, std::pair{"1e26", "100000000000000000000000000"},
                             std::pair{"12E3", "12000"}, std::pair{"1500e-2", "15"}}) {
    StatusOr<Count> count = parseLargeCount(text, "C");
    ASSERT_TRUE(count.ok()) << text << count.status();
    EXPECT_EQ(toDecimal(*count), value);
  }
  for (const char *text : {"", "x", "1.5", "1.23456k", "-3", "1e99", "3x", "1e", "2 B", "_1", ".5k"})
    EXPECT_FALSE(parseLargeCount(text, "C").ok()) << text;
  EXPECT_DOUBLE_EQ(*parseShare("0.1%", "--tolerance"), 0.001);
  EXPECT_DOUBLE_EQ(*parseShare("0.25", "--tolerance"), 0.25);
  for (const char *text : {"", "%", "x", "120%", "-1%", "1.5"})
    EXPECT_FALSE(parseShare(text, "--tolerance").ok()) << text;
}

/// TinyLlama's 300 B tokens against OLMoE, under three readings of attention and two lengths.
TEST(Budget, TokensOfEqualCompute) {
  nlohmann::json examples =
      nlohmann::json::parse(*readFile(std::string(SLUICE_TEST_DATA) + "/accounting/oracle_params.json"))
          .at("solver_isoflop_examples");
  ASSERT_EQ(examples.size(), 6u);
  for (const nlohmann::json &row : examples) {
    auto count = [&](const char *key) {
      return row[key].is_string() ? *parseLargeCount(row[key].get<std::string>(), key)
                                  : static_cast<Count>(row[key].get<uint64_t>());
    };
    const Count step = count("batch_sequences") * count("T");
    const Count compute = count("reference_tokens") * count("reference_flops_per_token");
    EXPECT_EQ(toDecimal(compute), row["C"].get<std::string>());
    TokenBudget candidate = tokensForCompute(compute, step * count("candidate_flops_per_token"), step);
    EXPECT_EQ(toDecimal(candidate.steps), toDecimal(count("candidate_steps")));
    EXPECT_EQ(toDecimal(candidate.tokens), toDecimal(count("candidate_tokens")));
    const double ppm =
        1e6 * static_cast<double>(residualOf(candidate.flops, compute)) / static_cast<double>(compute);
    EXPECT_NEAR(ppm, row["residual_ppm"].get<double>(), 5e-4);
  }
}

} // namespace
} // namespace sluice
