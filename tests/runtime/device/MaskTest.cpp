// Masks on the device against plain loops: random masks, masked products, the optimizer and the update.
#include "runtime/support/Philox.h"
#include "tests/runtime/device/CommandRunner.h"
#include "tests/runtime/device/RoutingReference.h"

#include <algorithm>

namespace sluice::test {
namespace {

using Bits = std::vector<uint8_t>;

int64_t bytesOf(int64_t weights) {
  return (weights + 63) / 64 * 8;
}
Bits bitsOf(const std::vector<bool> &kept) {
  Bits bits(static_cast<size_t>(bytesOf(static_cast<int64_t>(kept.size()))));
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i])
      bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1u << (i % 8));
  return bits;
}

/// About a third of the weights, never the first of each 64.
std::vector<bool> someKept(int64_t weights, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::vector<bool> kept;
  kept.reserve(static_cast<size_t>(weights));
  for (int64_t i = 0; i < weights; ++i)
    kept.push_back(i % 64 != 0 && generator() % 3 == 0);
  return kept;
}

TEST(Mask, RandomMasksKeepTheSmallestKeys) {
  struct Case {
    const char *pattern;
    int64_t matrices, rows, columns, kept;
  };
  for (const Case &c : {Case{"unstructured", 1, 7, 9, 20},
                        {"unstructured", 3, 5, 11, 1},
                        {"2:4", 2, 6, 8, 24},
                        {"block:2x3", 2, 4, 9, 18}}) {
    CommandRunner runner;
    const int64_t size = c.rows * c.columns, weights = size * c.matrices;
    const Operand seed = runner.longs({1}, {11}), mask = runner.output({bytesOf(weights)}, ElementType::U8);
    runner.add("random_mask", {seed}, {mask},
               {text("stream", "w.mask"), text("pattern", c.pattern),
                text("shape", std::to_string(c.matrices) + "," + std::to_string(c.rows) + "," +
                                  std::to_string(c.columns)),
                flag("kept", c.kept)});
    runner.run();
    const PhiloxStream stream(11, streamKey("w.mask"));
    const std::string pattern = c.pattern;
    std::vector<bool> expected(static_cast<size_t>(weights));
    const int64_t group = pattern == "2:4" ? 4 : size, keep = pattern == "2:4" ? 2 : c.kept;
    for (int64_t begin = 0; begin < weights; begin += group) {
      std::vector<std::pair<uint32_t, int64_t>> keys;
      for (int64_t i = begin; i < begin + group; ++i)
        if (pattern[0] != 'b' || (i / c.columns % 2 == 0 && i % c.columns % 3 == 0))
          keys.emplace_back(stream.bits(static_cast<uint64_t>(i)), i);
      std::sort(keys.begin(), keys.end());
      for (int64_t k = 0; k < (pattern[0] == 'b' ? keep / 6 : keep); ++k)
        for (int64_t row = 0; row < (pattern[0] == 'b' ? 2 : 1); ++row)
          for (int64_t column = 0; column < (pattern[0] == 'b' ? 3 : 1); ++column)
            expected[static_cast<size_t>(keys[static_cast<size_t>(k)].second + row * c.columns + column)] =
                true;
    }
    EXPECT_EQ(runner.readBytes(mask), bitsOf(expected)) << pattern;
  }
}

/// Which kernels a command carries, and which of them its mask means.
enum class Form { Dense, Skipping, BothNowDense, BothNowSkipping };
/// With a form, whether masks keep blocks of 4 x 6 or single weights.
class MaskedProducts : public testing::TestWithParam<std::tuple<Form, bool>> {
protected:
  const bool blocks = std::get<1>(GetParam());
  const int64_t out = blocks ? 20 : 19, in = blocks ? 24 : 23;

  /// For each of `matrices` matrices [out, in] about a third of its weights, of each as many.
  std::vector<bool> keptWeights(int64_t matrices) const {
    std::vector<bool> kept;
    std::mt19937 random(5);
    const int64_t units = blocks ? 5 * 4 : out * in;
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
      std::vector<bool> of(static_cast<size_t>(units));
      std::fill_n(of.begin(), units / 3, true);
      std::shuffle(of.begin(), of.end(), random);
      for (int64_t i = 0; i < out * in; ++i)
        kept.push_back(of[static_cast<size_t>(blocks ? i / in / 4 * 4 + i % in / 6 : i)]);
    }
    return kept;
  }

  /// `most` is what a matrix of `size` weights keeps now.
  std::vector<CommandAttribute> settings(int64_t most, int64_t size,
                                         std::vector<CommandAttribute> own) const {
    const Form form = std::get<0>(GetParam());
    own.push_back(text("pattern", blocks ? "block:4x6" : "unstructured"));
    const bool both = form == Form::BothNowDense || form == Form::BothNowSkipping;
    own.push_back(flag("kept", both ? size : most));
    own.push_back(flag("skip_at_most", form == Form::Dense          ? 0
                                       : form == Form::BothNowDense ? most - 1
                                                                    : most));
    return own;
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, MaskedProducts,
                         testing::Combine(testing::Values(Form::Dense, Form::Skipping, Form::BothNowDense,
                                                          Form::BothNowSkipping),
                                          testing::Bool()));

TEST_P(MaskedProducts, AndTheirGradients) {
  const int64_t rows = 37;
  const std::vector<bool> kept = keptWeights(1);
  const Floats x = randomFloats(rows * in, 2), dy = randomFloats(rows * out, 3),
               old = randomFloats(out * in, 5);
  Floats w = randomFloats(out * in, 4), sum = old;
  for (int64_t i = 0; i < out * in; ++i)
    if (!kept[static_cast<size_t>(i)])
      w[static_cast<size_t>(i)] = sum[static_cast<size_t>(i)] = 0;
  CommandRunner runner;
  const Operand px = runner.floats({rows, in}, x), pw = runner.floats({out, in}, w),
                pdy = runner.floats({rows, out}, dy), mask = runner.bytes(bitsOf(kept));
  const Operand y = runner.output({rows, out}), dx = runner.output({rows, in}),
                dw = runner.floats({out, in}, sum), fresh = runner.output({out, in});
  const Floats added = randomFloats(out, 6);
  const Operand bias = runner.floats({out}, added), withBias = runner.output({rows, out});
  const int64_t most = std::count(kept.begin(), kept.end(), true);
  auto settings = [&](std::vector<CommandAttribute> own) {
    return MaskedProducts::settings(most, out * in, std::move(own));
  };
  runner.add("refresh_derived_state", {}, {});
  runner.add("masked_gemm", {px, pw, mask}, {y}, settings({flag("transpose_b", 1), flag("parameter_b", 1)}));
  runner.add("masked_gemm", {pdy, pw, mask}, {dx}, settings({flag("parameter_b", 1)}));
  runner.add("masked_gemm", {px, pw, bias, mask}, {withBias},
             settings({flag("transpose_b", 1), flag("parameter_b", 1)}));
  runner.add("masked_weight_gradient", {pdy, px, mask}, {dw}, settings({flag("accumulate", 1)}));
  runner.add("masked_weight_gradient", {pdy, px, mask}, {fresh}, settings({}));
  runner.run();
  Doubles wy(static_cast<size_t>(rows * out)), wdx(static_cast<size_t>(rows * in)),
      wdw(static_cast<size_t>(out * in)), wfresh(static_cast<size_t>(out * in));
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i) {
      const auto at = static_cast<size_t>(o * in + i);
      if (!kept[at])
        continue;
      for (int64_t r = 0; r < rows; ++r) {
        wy[static_cast<size_t>(r * out + o)] += double(x[static_cast<size_t>(r * in + i)]) * w[at];
        wdx[static_cast<size_t>(r * in + i)] += double(dy[static_cast<size_t>(r * out + o)]) * w[at];
        wfresh[at] += double(dy[static_cast<size_t>(r * out + o)]) * x[static_cast<size_t>(r * in + i)];
      }
      wdw[at] = wfresh[at] + old[at];
    }
  EXPECT_CLOSE(runner.read(y), wy);
  for (int64_t i = 0; i < rows * out; ++i)
    wy[static_cast<size_t>(i)] += added[static_cast<size_t>(i % out)];
  EXPECT_CLOSE(runner.read(withBias), wy);
  EXPECT_CLOSE(runner.read(dx), wdx);
  EXPECT_CLOSE(runner.read(dw), wdw);
  EXPECT_CLOSE(runner.read(fresh), wfresh);
  for (size_t i = 0; i < kept.size(); ++i)
    if (!kept[i]) {
      EXPECT_EQ(runner.read(dw)[i], 0.0f);
    }
}

TEST_P(MaskedProducts, OfExperts) {
  // Rows 300, 0, 1 and 99 of an expert; matrices of 19 x 23 share words of the mask.
  const int64_t experts = 4, size = out * in;
  const std::vector<bool> kept = keptWeights(experts);
  const int64_t perMatrix = std::count(kept.begin(), kept.begin() + size, true);
  std::vector<int32_t> ids;
  for (auto [expert, count] : {std::pair{0, 300}, {2, 1}, {3, 99}})
    ids.insert(ids.end(), static_cast<size_t>(count), expert);
  const RoutingReference r = routingFromIds(ids, 1, static_cast<int>(experts));
  const Floats x = randomFloats(r.rows() * in, 2), dy = randomFloats(r.rows() * out, 3);
  Floats w = randomFloats(experts * size, 4), old = randomFloats(experts * size, 5);
  for (size_t i = 0; i < kept.size(); ++i)
    if (!kept[i])
      w[i] = old[i] = 0;
  CommandRunner runner;
  const Operand px = runner.floats({r.rows(), in}, x), pdy = runner.floats({r.rows(), out}, dy),
                pw = runner.floats({experts, out, in}, w), pr = runner.integers(r.shape(), r.buffer),
                mask = runner.bytes(bitsOf(kept));
  const Operand y = runner.output({r.rows(), out}), dx = runner.output({r.rows(), in}),
                fresh = runner.output({experts, out, in}), sum = runner.floats({experts, out, in}, old);
  auto set = [&](std::vector<CommandAttribute> own) {
    own.push_back(flag("top_k", 1));
    return settings(perMatrix, size, std::move(own));
  };
  runner.add("refresh_derived_state", {}, {});
  runner.add("masked_grouped_gemm", {px, pw, pr, mask}, {y}, set({}));
  runner.add("masked_grouped_gemm", {pdy, pw, pr, mask}, {dx}, set({flag("transpose_w", 1)}));
  runner.add("masked_grouped_weight_gradient", {pdy, px, pr, mask}, {fresh}, set({}));
  runner.add("masked_grouped_weight_gradient", {pdy, px, pr, mask}, {sum}, set({flag("accumulate", 1)}));
  runner.run();
  Doubles wy(dy.size()), wdx(x.size()), wfresh(w.size()), wsum(old.begin(), old.end());
  for (int64_t row = 0; row < r.rows(); ++row)
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i) {
        const auto at = static_cast<size_t>((r.expertOfRow(row) * out + o) * in + i);
        if (!kept[at])
          continue;
        const double xi = x[static_cast<size_t>(row * in + i)], d = dy[static_cast<size_t>(row * out + o)];
        wy[static_cast<size_t>(row * out + o)] += xi * w[at];
        wdx[static_cast<size_t>(row * in + i)] += d * w[at];
        wfresh[at] += d * xi, wsum[at] += d * xi;
      }
  EXPECT_CLOSE(runner.read(y), wy);
  EXPECT_CLOSE(runner.read(dx), wdx);
  EXPECT_CLOSE(runner.read(fresh), wfresh);
  EXPECT_CLOSE(runner.read(sum), wsum);
}

std::vector<CommandAttribute> adamSettings(double decay) {
  return {real("beta1", 0.9), real("beta2", 0.95), real("epsilon", 1e-8), real("weight_decay", decay),
          real("clip", 1.0)};
}

TEST(Mask, AdamWOverKeptWeights) {
  const int64_t n = 70001;
  for (bool all : {true, false}) {
    const std::vector<bool> kept = all ? std::vector<bool>(n, true) : someKept(n, 1);
    const Floats w = randomFloats(n, 1), m = randomFloats(n, 2), g = randomFloats(n, 4, 30);
    Floats v = randomFloats(n, 3);
    for (float &x : v)
      x *= x;
    CommandRunner runner;
    const Operand lr = runner.floats({1}, {1e-2f}), step = runner.longs({1}, {7}),
                  count = runner.floats({1}, {63}), norm = runner.floats({1}, {600}),
                  mask = runner.bytes(bitsOf(kept));
    std::vector<Operand> plain, masked;
    for (const Floats &values : {w, m, v, g}) {
      plain.push_back(runner.floats({n}, values));
      masked.push_back(runner.floats({n}, values));
    }
    runner.add("adamw", {plain[0], plain[1], plain[2], plain[3], lr, step, count, norm}, plain,
               adamSettings(0.1));
    std::vector<CommandAttribute> settings = adamSettings(0.1);
    settings.push_back(real("ramp", 0));
    runner.add("masked_adamw", {masked[0], masked[1], masked[2], masked[3], mask, lr, step, count, norm},
               masked, settings);
    runner.run();
    for (size_t k = 0; k < 4; ++k) {
      const Floats dense = runner.read(plain[k]), found = runner.read(masked[k]);
      for (size_t i = 0; i < kept.size(); ++i)
        ASSERT_EQ(found[i], kept[i] ? dense[i] : 0.0f) << k << " " << i;
    }
  }
}

TEST(Mask, ANormThatIsNotFiniteLeavesKeptWeightsAndStopsTheNextStep) {
  const int64_t n = 203;
  const std::vector<bool> kept = someKept(n, 2);
  for (bool aged : {false, true}) {
    CommandRunner runner;
    std::vector<Operand> inputs, outputs;
    for (int k = 0; k < 4; ++k)
      inputs.push_back(runner.floats({n}, Floats(n, 3)));
    outputs = inputs;
    const Operand one = runner.floats({1}, {1}),
                  norm = runner.floats({1}, {std::numeric_limits<float>::infinity()});
    for (const Operand &operand : {runner.bytes(bitsOf(kept)), one, one, one, norm})
      inputs.push_back(operand);
    if (aged) {
      inputs.push_back(runner.floats({n}, Floats(n, 3)));
      outputs.push_back(inputs.back());
    }
    std::vector<CommandAttribute> settings = adamSettings(0.1);
    settings.push_back(real("ramp", 0));
    runner.add("masked_adamw", inputs, outputs, settings);
    runner.run();
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Floats found = runner.read(outputs[k]);
      for (size_t i = 0; i < kept.size(); ++i)
        ASSERT_TRUE(!kept[i] ? found[i] == 0
                    : k == 3 ? std::isnan(found[i])
                             : found[i] == 3)
            << k << " " << i << " " << found[i];
    }
  }
}

TEST(Mask, AgesTakeTheStepsPlaceAndDampTheFirstMoment) {
  const int64_t n = 1003;
  const std::vector<bool> kept = someKept(n, 2);
  const Floats w = randomFloats(n, 1), m = randomFloats(n, 2), g = randomFloats(n, 4, 30);
  Floats v = randomFloats(n, 3), age(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] *= v[i], age[i] = kept[i] ? static_cast<float>(i % 30) : 0.0f;
  CommandRunner runner;
  std::vector<Operand> places;
  for (const Floats &values : {w, m, v, g})
    places.push_back(runner.floats({n}, values));
  const Operand lr = runner.floats({1}, {1e-2f}), step = runner.longs({1}, {100}),
                count = runner.floats({1}, {63}), norm = runner.floats({1}, {20}),
                mask = runner.bytes(bitsOf(kept)), ages = runner.floats({n}, age);
  std::vector<CommandAttribute> settings = adamSettings(0.0);
  settings.push_back(real("ramp", 20));
  std::vector<Operand> outputs = places;
  outputs.push_back(ages);
  runner.add("masked_adamw", {places[0], places[1], places[2], places[3], mask, lr, step, count, norm, ages},
             outputs, settings);
  runner.run();
  Doubles ww(static_cast<size_t>(n)), wm = ww, wv = ww;
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(runner.read(ages)[i], kept[i] ? age[i] + 1 : 0.0f);
    if (!kept[i])
      continue;
    const double x = g[i] / 63.0, t = age[i] + 1.0;
    wm[i] = (0.9 * m[i] + 0.1 * x) * std::min(t / 20, 1.0);
    wv[i] = 0.95 * v[i] + 0.05 * x * x;
    ww[i] =
        w[i] - 1e-2f * (wm[i] / (1 - std::pow(0.9, t))) / (std::sqrt(wv[i] / (1 - std::pow(0.95, t))) + 1e-8);
  }
  EXPECT_CLOSE(runner.read(places[0]), ww);
  EXPECT_CLOSE(runner.read(places[1]), wm);
  EXPECT_CLOSE(runner.read(places[2]), wv);
  EXPECT_EQ(runner.read(places[3]), Floats(static_cast<size_t>(n)));
}

} // namespace
} // namespace sluice::test
