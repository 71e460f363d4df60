// Commands on weights in kept form give the bits that they give on whole weights.
#include "tests/runtime/device/CommandRunner.h"
#include "tests/runtime/device/RoutingReference.h"

#include <algorithm>

namespace sluice::test {
namespace {

constexpr int64_t rows = 37, outWidth = 19, inWidth = 23, size = outWidth * inWidth, most = 90;
using Bits = std::vector<uint8_t>;

class KeptForm : public testing::Test {
protected:
  KeptForm() : mask(static_cast<size_t>((size + 63) / 64 * 8)) {
    std::vector<int64_t> places(size);
    for (int64_t i = 0; i < size; ++i)
      places[static_cast<size_t>(i)] = i;
    std::shuffle(places.begin(), places.end(), std::mt19937(3));
    for (int64_t i = 0; i < most; ++i)
      mask[static_cast<size_t>(places[static_cast<size_t>(i)] / 8)] |=
          static_cast<uint8_t>(1 << places[static_cast<size_t>(i)] % 8);
  }

  static bool keeps(const Bits &bits, int64_t i) { return bits[static_cast<size_t>(i / 8)] >> (i % 8) & 1; }
  /// The values that `bits` keeps.
  static Floats kept(const Floats &whole, const Bits &bits) {
    Floats values;
    for (int64_t i = 0; i < size; ++i)
      if (keeps(bits, i))
        values.push_back(whole[static_cast<size_t>(i)]);
    return values;
  }
  /// Random values, zeros where the mask does not keep.
  Floats masked(int seed, bool positive = false) const {
    Floats values = randomFloats(size, seed);
    for (int64_t i = 0; i < size; ++i) {
      float &value = values[static_cast<size_t>(i)];
      value = !keeps(mask, i) ? 0 : positive ? std::abs(value) : value;
    }
    return values;
  }

  Bits mask;
};

TEST_F(KeptForm, Products) {
  const Floats w = masked(1), x = randomFloats(rows * inWidth, 2), dy = randomFloats(rows * outWidth, 3),
               old = masked(4), bias = randomFloats(outWidth, 5);
  Floats results[2][4];
  for (bool isKept : {false, true}) {
    CommandRunner runner;
    const Operand pw = isKept ? runner.floats({most}, kept(w, mask)) : runner.floats({outWidth, inWidth}, w),
                  px = runner.floats({rows, inWidth}, x), pdy = runner.floats({rows, outWidth}, dy),
                  pm = runner.bytes(mask), pb = runner.floats({outWidth}, bias);
    const Operand y = runner.output({rows, outWidth}), dx = runner.output({rows, inWidth}),
                  fresh = isKept ? runner.output({most}) : runner.output({outWidth, inWidth}),
                  sum = isKept ? runner.floats({most}, kept(old, mask))
                               : runner.floats({outWidth, inWidth}, old);
    auto settings = [&](std::vector<CommandAttribute> own) {
      own.push_back(flag("kept", most));
      own.push_back(flag("skip_at_most", most));
      if (isKept)
        own.push_back(text("shape", "19,23"));
      return own;
    };
    runner.add("refresh_derived_state", {}, {});
    runner.add("masked_gemm", {px, pw, pb, pm}, {y}, settings({flag("transpose_b", 1)}));
    runner.add("masked_gemm", {pdy, pw, pm}, {dx}, settings({}));
    runner.add("masked_weight_gradient", {pdy, px, pm}, {fresh}, settings({}));
    runner.add("masked_weight_gradient", {pdy, px, pm}, {sum}, settings({flag("accumulate", 1)}));
    runner.run();
    results[isKept][0] = runner.read(y), results[isKept][1] = runner.read(dx);
    for (int k : {2, 3}) {
      const Floats read = runner.read(k == 2 ? fresh : sum);
      results[isKept][k] = isKept ? read : kept(read, mask);
    }
  }
  for (int k = 0; k < 4; ++k)
    EXPECT_EQ(results[0][k], results[1][k]) << k;
  EXPECT_NE(results[0][2], Floats(most)) << "a gradient must come out";
}

TEST_F(KeptForm, AProductAgainstPlainLoops) {
  const Floats w = masked(1), x = randomFloats(rows * inWidth, 2);
  CommandRunner runner;
  const Operand pw = runner.floats({most}, kept(w, mask)), px = runner.floats({rows, inWidth}, x),
                pm = runner.bytes(mask), y = runner.output({rows, outWidth});
  runner.add("refresh_derived_state", {}, {});
  runner.add(
      "masked_gemm", {px, pw, pm}, {y},
      {flag("transpose_b", 1), flag("kept", most), flag("skip_at_most", most), text("shape", "19,23")});
  runner.run();
  Doubles want(rows * outWidth);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outWidth; ++o)
      for (int64_t i = 0; i < inWidth; ++i)
        want[static_cast<size_t>(r * outWidth + o)] +=
            double(x[static_cast<size_t>(r * inWidth + i)]) * w[static_cast<size_t>(o * inWidth + i)];
  EXPECT_CLOSE(runner.read(y), want);
}

TEST_F(KeptForm, ApplyMask) {
  const Floats x = randomFloats(size, 1);
  CommandRunner runner;
  const Operand px = runner.floats({outWidth, inWidth}, x), y = runner.output({most});
  runner.add("apply_mask", {px, runner.bytes(mask)}, {y}, {flag("kept_only", 1)});
  runner.run();
  EXPECT_EQ(runner.read(y), kept(x, mask));
}

TEST_F(KeptForm, OptimizerAndUpdate) {
  for (bool ages : {false, true})
    for (const char *grow : {"random", "gradient"}) {
      SCOPED_TRACE(testing::Message() << (ages ? "with" : "without") << " ages, growth " << grow);
      const bool byGradient = std::string(grow) == "gradient";
      const Floats states[4] = {masked(1), masked(2), masked(3, true), masked(4)};
      Floats age = masked(6, true);
      for (float &value : age)
        value = std::ceil(value * 10);
      std::vector<Floats> results[2];
      Bits masks[2];
      for (bool isKept : {false, true}) {
        CommandRunner runner;
        auto state = [&](const Floats &whole) {
          return isKept ? runner.floats({most}, kept(whole, mask))
                        : runner.floats({outWidth, inWidth}, whole);
        };
        std::vector<Operand> p;
        for (const Floats &values : states)
          p.push_back(state(values));
        const Operand pm = runner.bytes(mask), pa = state(age);
        std::vector<Operand> inputs = p, outputs = p;
        inputs.push_back(pm);
        for (float scalar : {1e-2f, 3.0f, 50.0f, 7.0f}) // learning_rate, step, tokens, norm
          inputs.push_back(runner.floats({1}, {scalar}));
        if (ages)
          inputs.push_back(pa), outputs.push_back(pa);
        runner.add("masked_adamw", inputs, outputs,
                   {real("beta1", 0.9), real("beta2", 0.95), real("epsilon", 1e-8), real("weight_decay", 0.1),
                    real("clip", 1.0), real("ramp", ages ? 20 : 0), flag("kept_only", isKept)});
        std::vector<Operand> from = {pm, p[0], p[1], p[2]}, to = from;
        for (int64_t scalar : {int64_t{5}, int64_t{100}, int64_t{300000000}}) // seed, step, amount
          from.push_back(runner.longs({1}, {scalar}));
        if (ages)
          from.push_back(pa), to.push_back(pa);
        if (byGradient)
          from.push_back(runner.floats({outWidth, inWidth}, randomFloats(size, 9)));
        runner.add("update_mask", from, to,
                   {text("stream", "w.mask"), text("drop", "magnitude"), text("grow", grow),
                    text("pattern", "unstructured"), text("shape", "19,23"), flag("kept", most),
                    flag("target", most), flag("has_age", ages), real("restart", 5),
                    flag("kept_only", isKept)});
        runner.run();
        masks[isKept] = runner.readBytes(pm);
        std::vector<Operand> read = {p[0], p[1], p[2]};
        if (ages)
          read.push_back(pa);
        for (const Operand &place : read)
          results[isKept].push_back(isKept ? runner.read(place) : kept(runner.read(place), masks[0]));
      }
      EXPECT_EQ(masks[0], masks[1]);
      EXPECT_NE(masks[0], mask) << "the update must move the mask";
      EXPECT_EQ(results[0], results[1]);
    }
}

/// Three experts' matrices, of each `most` weights kept; their masks share words.
class KeptFormOfExperts : public testing::Test {
protected:
  static constexpr int64_t experts = 3, weights = experts * size;

  KeptFormOfExperts() : mask(static_cast<size_t>((weights + 63) / 64 * 8)) {
    std::mt19937 random(3);
    for (int64_t expert = 0; expert < experts; ++expert) {
      std::vector<int64_t> places(size);
      for (int64_t i = 0; i < size; ++i)
        places[static_cast<size_t>(i)] = expert * size + i;
      std::shuffle(places.begin(), places.end(), random);
      for (int64_t k = 0; k < most; ++k) {
        const auto place = static_cast<size_t>(places[static_cast<size_t>(k)]);
        mask[place / 8] |= static_cast<uint8_t>(1 << place % 8);
      }
    }
  }

  static Floats kept(const Floats &whole, const Bits &bits) {
    Floats values;
    for (size_t i = 0; i < static_cast<size_t>(weights); ++i)
      if (bits[i / 8] >> (i % 8) & 1)
        values.push_back(whole[i]);
    return values;
  }
  Floats masked(int seed, bool positive = false) const {
    Floats values = randomFloats(weights, seed);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = (mask[i / 8] >> (i % 8) & 1) == 0 ? 0 : positive ? std::abs(values[i]) : values[i];
    return values;
  }

  Bits mask;
};

TEST_F(KeptFormOfExperts, Products) {
  std::vector<int32_t> ids; // rows 70, 0 and 9 of an expert
  ids.insert(ids.end(), 70, 0), ids.insert(ids.end(), 9, 2);
  const RoutingReference r = routingFromIds(ids, 1, static_cast<int>(experts));
  const Floats w = masked(1), x = randomFloats(r.rows() * inWidth, 2),
               dy = randomFloats(r.rows() * outWidth, 3), old = masked(4);
  Floats results[2][4];
  for (bool isKept : {false, true}) {
    CommandRunner runner;
    auto state = [&](const Floats &whole) {
      return isKept ? runner.floats({experts, most}, kept(whole, mask))
                    : runner.floats({experts, outWidth, inWidth}, whole);
    };
    const Operand pw = state(w), sum = state(old), fresh = state(Floats(static_cast<size_t>(weights), 7)),
                  px = runner.floats({r.rows(), inWidth}, x), pdy = runner.floats({r.rows(), outWidth}, dy),
                  pr = runner.integers(r.shape(), r.buffer), pm = runner.bytes(mask),
                  y = runner.output({r.rows(), outWidth}), dx = runner.output({r.rows(), inWidth});
    auto settings = [&](std::vector<CommandAttribute> own) {
      own.push_back(flag("top_k", 1));
      own.push_back(flag("kept", most));
      own.push_back(flag("skip_at_most", most));
      if (isKept)
        own.push_back(text("shape", "3,19,23"));
      return own;
    };
    runner.add("refresh_derived_state", {}, {});
    runner.add("masked_grouped_gemm", {px, pw, pr, pm}, {y}, settings({}));
    runner.add("masked_grouped_gemm", {pdy, pw, pr, pm}, {dx}, settings({flag("transpose_w", 1)}));
    runner.add("masked_grouped_weight_gradient", {pdy, px, pr, pm}, {fresh}, settings({}));
    runner.add("masked_grouped_weight_gradient", {pdy, px, pr, pm}, {sum}, settings({flag("accumulate", 1)}));
    runner.run();
    results[isKept][0] = runner.read(y), results[isKept][1] = runner.read(dx);
    results[isKept][2] = isKept ? runner.read(fresh) : kept(runner.read(fresh), mask);
    results[isKept][3] = isKept ? runner.read(sum) : kept(runner.read(sum), mask);
  }
  for (int k = 0; k < 4; ++k)
    EXPECT_EQ(results[0][k], results[1][k]) << k;
  EXPECT_NE(results[0][2], Floats(experts * most)) << "a gradient must come out";
}

TEST_F(KeptFormOfExperts, Update) {
  for (const char *grow : {"random", "gradient"}) {
    const Floats states[4] = {masked(1), masked(2), masked(3, true), masked(5, true)};
    std::vector<Floats> results[2];
    Bits masks[2];
    for (bool isKept : {false, true}) {
      CommandRunner runner;
      std::vector<Operand> places;
      for (const Floats &whole : states)
        places.push_back(isKept ? runner.floats({experts, most}, kept(whole, mask))
                                : runner.floats({experts, outWidth, inWidth}, whole));
      const Operand pm = runner.bytes(mask);
      std::vector<Operand> from = {pm, places[0], places[1], places[2]}, to = from;
      for (int64_t scalar : {int64_t{5}, int64_t{100}, int64_t{300000000}}) // seed, step, amount
        from.push_back(runner.longs({1}, {scalar}));
      from.push_back(places[3]), to.push_back(places[3]);
      if (std::string(grow) == "gradient")
        from.push_back(runner.floats({experts, outWidth, inWidth}, randomFloats(weights, 9)));
      runner.add("update_mask", from, to,
                 {text("stream", "w.mask"), text("drop", "magnitude"), text("grow", grow),
                  text("pattern", "unstructured"), text("shape", "3,19,23"), flag("kept", most),
                  flag("target", most), flag("has_age", 1), real("restart", 5), flag("kept_only", isKept)});
      runner.run();
      masks[isKept] = runner.readBytes(pm);
      for (const Operand &place : places)
        results[isKept].push_back(isKept ? runner.read(place) : kept(runner.read(place), masks[0]));
    }
    EXPECT_EQ(masks[0], masks[1]) << grow;
    EXPECT_NE(masks[0], mask) << "the update must move the mask";
    EXPECT_EQ(results[0], results[1]) << grow;
  }
}

} // namespace
} // namespace sluice::test
