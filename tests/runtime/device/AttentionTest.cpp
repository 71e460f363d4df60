// attention_forward, attention_backward and rope against float64 loops; the backward within 1e-4.
#include "tests/runtime/device/CommandRunner.h"

namespace sluice::test {
namespace {

struct AttentionCase {
  int64_t batch, sequence, heads, keyHeads, dim;
  bool causal;
  int64_t window = 0, valueDim = 0; // 0: none, dim
  double softcap = 0;
  bool slopes = false, sinks = false;

  int64_t values() const { return valueDim ? valueDim : dim; }
  double slope(int64_t head) const { return slopes ? std::pow(2.0, -1.0 - static_cast<double>(head)) : 0; }
};

/// Everything in float64, straight from the definition.
struct Reference {
  Doubles out, lse, dq, dk, dv, dsinks;
};

Reference reference(const AttentionCase &c, const Floats &q, const Floats &k, const Floats &v,
                    const Floats &sinks, const Floats &dout, double scale) {
  const int64_t qw = c.heads * c.dim, kw = c.keyHeads * c.dim, values = c.values();
  Reference r{Doubles(dout.size()), Doubles(c.batch * c.heads * c.sequence),
              Doubles(q.size()),    Doubles(k.size()),
              Doubles(v.size()),    Doubles(sinks.size())};
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t head = 0; head < c.heads; ++head)
      for (int64_t i = 0; i < c.sequence; ++i) {
        const int64_t from = c.window ? std::max<int64_t>(0, i - c.window + 1) : 0,
                      n = c.causal ? i + 1 : c.sequence, token = b * c.sequence + i;
        const int64_t qa = token * qw + head * c.dim, oa = (token * c.heads + head) * values;
        const int64_t keyHead = head / (c.heads / c.keyHeads);
        auto ka = [&](int64_t j) { return (b * c.sequence + j) * kw + keyHead * c.dim; };
        auto va = [&](int64_t j) { return ((b * c.sequence + j) * c.keyHeads + keyHead) * values; };
        Doubles p(n), slope(n, 1.0), dp(n);
        double most = c.sinks ? sinks[head] : -1e300, inner = 0;
        for (int64_t j = from; j < n; ++j) {
          double s = 0;
          for (int64_t x = 0; x < c.dim; ++x)
            s += static_cast<double>(q[qa + x]) * k[ka(j) + x];
          s *= scale;
          if (c.softcap > 0) {
            s = c.softcap * std::tanh(s / c.softcap);
            slope[j] = 1 - s / c.softcap * (s / c.softcap);
          }
          p[j] = s + c.slope(head) * static_cast<double>(j - i);
          most = std::max(most, p[j]);
        }
        double mass = c.sinks ? std::exp(sinks[head] - most) : 0;
        for (int64_t j = from; j < n; ++j)
          mass += std::exp(p[j] - most);
        const double lse = most + std::log(mass);
        r.lse[(b * c.heads + head) * c.sequence + i] = lse;
        for (int64_t j = from; j < n; ++j) {
          p[j] = std::exp(p[j] - lse);
          for (int64_t x = 0; x < values; ++x) {
            r.out[oa + x] += p[j] * v[va(j) + x];
            dp[j] += static_cast<double>(dout[oa + x]) * v[va(j) + x];
            r.dv[va(j) + x] += p[j] * dout[oa + x];
          }
          inner += p[j] * dp[j];
        }
        for (int64_t j = from; j < n; ++j)
          for (int64_t x = 0; x < c.dim; ++x) {
            r.dq[qa + x] += scale * slope[j] * p[j] * (dp[j] - inner) * k[ka(j) + x];
            r.dk[ka(j) + x] += scale * slope[j] * p[j] * (dp[j] - inner) * q[qa + x];
          }
        if (c.sinks)
          r.dsinks[head] -= std::exp(sinks[head] - lse) * inner;
      }
  return r;
}

void check(const AttentionCase &c) {
  SCOPED_TRACE(testing::Message() << c.batch << " " << c.sequence << " " << c.heads << ":" << c.keyHeads
                                  << " " << c.dim << " causal " << c.causal << " window " << c.window
                                  << " values " << c.values() << " cap " << c.softcap << " slopes "
                                  << c.slopes << " sinks " << c.sinks);
  const double scale = 1.0 / std::sqrt(static_cast<double>(c.dim));
  const Shape qs{c.batch, c.sequence, c.heads * c.dim}, ks{c.batch, c.sequence, c.keyHeads * c.dim},
      vs{c.batch, c.sequence, c.keyHeads * c.values()}, os{c.batch, c.sequence, c.heads * c.values()};
  const Floats q = randomFloats(count(qs), 1), k = randomFloats(count(ks), 2), v = randomFloats(count(vs), 3);
  const Floats dout = randomFloats(count(os), 4), sinks = randomFloats(c.sinks ? c.heads : 0, 5);
  CommandRunner runner;
  std::vector<Operand> in = {runner.floats(qs, q), runner.floats(ks, k), runner.floats(vs, v)};
  const Operand pd = runner.floats(os, dout), out = runner.output(os),
                lse = runner.output({c.batch, c.heads, c.sequence});
  std::vector<Operand> backward = in, gradients = {runner.output(qs), runner.output(ks), runner.output(vs)};
  backward.insert(backward.end(), {out, lse, pd});
  std::vector<CommandAttribute> attributes = {flag("heads", c.heads), flag("kv_heads", c.keyHeads),
                                              flag("head_dim", c.dim), flag("causal", c.causal),
                                              real("scale", scale)};
  if (c.valueDim)
    attributes.push_back(flag("value_dim", c.valueDim));
  if (c.window)
    attributes.push_back(flag("window", c.window));
  if (c.softcap > 0)
    attributes.push_back(real("softcap", c.softcap));
  if (c.slopes) {
    std::string list;
    for (int64_t head = 0; head < c.heads; ++head)
      list += (head ? "," : "") + std::to_string(c.slope(head));
    attributes.push_back(text("slopes", list));
  }
  if (c.sinks) {
    attributes.push_back(flag("sinks", 1));
    in.push_back(runner.floats({c.heads}, sinks));
    backward.push_back(in.back());
    gradients.push_back(runner.output({c.heads}));
  }
  runner.add("attention_forward", in, {out, lse}, attributes);
  runner.add("attention_backward", backward, gradients, attributes);
  runner.run();
  const Reference want = reference(c, q, k, v, sinks, dout, scale);
  EXPECT_CLOSE(runner.read(out), want.out);
  EXPECT_CLOSE(runner.read(lse), want.lse);
  EXPECT_LE(relativeError(runner.read(gradients[0]), want.dq), 1e-4);
  EXPECT_LE(relativeError(runner.read(gradients[1]), want.dk), 1e-4);
  EXPECT_LE(relativeError(runner.read(gradients[2]), want.dv), 1e-4);
  if (c.sinks)
    EXPECT_LE(relativeError(runner.read(gradients[3]), want.dsinks), 1e-4);
}

TEST(Attention, AgainstTheDefinition) {
  for (bool causal : {true, false})
    for (const AttentionCase &c : casesFor<AttentionCase>({{1, 1, 1, 1, 1, causal},
                                                           {2, 7, 3, 1, 5, causal},
                                                           {1, 32, 2, 1, 40, causal},
                                                           {2, 67, 4, 2, 8, causal},
                                                           {1, 37, 2, 1, 100, causal},
                                                           {1, 35, 2, 1, 130, causal}},
                                                          {{1, 64, 4, 2, 16, causal},
                                                           {2, 131, 6, 2, 8, causal},
                                                           {1, 521, 2, 2, 12, causal}})) // blocks of keys
      check(c);
}

TEST(Attention, Properties) {
  std::vector<AttentionCase> cases, large;
  for (int64_t window : {1, 7, 32, 66, 67, 500})
    cases.push_back({1, 67, 2, 1, 5, true, window});
  for (int64_t valueDim : {3, 8, 20, 35})
    cases.push_back({2, 35, 2, 1, 8, true, 0, valueDim});
  cases.push_back({2, 41, 4, 2, 8, true, 0, 0, 1.5});
  cases.push_back({2, 41, 4, 2, 8, false, 0, 0, 1.5});
  cases.push_back({2, 41, 4, 2, 8, true, 0, 0, 0, true});
  cases.push_back({2, 41, 4, 2, 8, true, 0, 0, 0, false, true});
  cases.push_back({1, 131, 4, 2, 6, true, 40, 5, 1.5, true, true});
  for (int64_t window : {64, 130, 131, 500})
    large.push_back({2, 131, 6, 2, 8, true, window});
  large.push_back({1, 521, 2, 1, 12, true, 300}); // the window begins inside a block of keys
  large.push_back({2, 531, 4, 2, 8, true, 100, 5, 1.5, true, true});
  for (const AttentionCase &c : casesFor(cases, large))
    check(c);
}

TEST(Attention, PropertiesAreChecked) {
  auto message = [](const CommandAttribute &attribute) {
    CommandRunner runner;
    const Operand q = runner.output({1, 4, 10}), lse = runner.output({1, 2, 4});
    runner.add("attention_forward", {q, q, q}, {q, lse},
               {flag("heads", 2), flag("kv_heads", 2), flag("head_dim", 5), flag("causal", 0),
                real("scale", 1.0), attribute});
    return std::string(runner.runWith(1).message());
  };
  EXPECT_NE(message(flag("window", 2)).find("window and slopes need causal"), std::string::npos);
  EXPECT_NE(message(flag("value_dim", 4)).find("v"), std::string::npos);
  EXPECT_NE(message(real("softcap", -1)).find("softcap must not be negative"), std::string::npos);
  EXPECT_NE(message(flag("sinks", 1)).find("fourth input"), std::string::npos);
  EXPECT_NE(message(text("slopes", "1,x")).find("finite numbers"), std::string::npos);
  EXPECT_NE(message(text("slopes", "1")).find("slopes"), std::string::npos);
}

TEST(Attention, HeadsMustBeAMultipleOfKeyHeads) {
  CommandRunner runner;
  const Operand q = runner.output({1, 4, 15}), k = runner.output({1, 4, 10}), lse = runner.output({1, 3, 4});
  runner.add(
      "attention_forward", {q, k, k}, {q, lse},
      {flag("heads", 3), flag("kv_heads", 2), flag("head_dim", 5), flag("causal", 1), real("scale", 1.0)});
  EXPECT_NE(std::string(runner.runWith(1).message()).find("multiple of kv_heads"), std::string::npos);
}

TEST(Rope, RotatesPairsAndBack) {
  const int64_t batch = 2, sequence = 11, heads = 3, dim = 10;
  const Floats x = randomFloats(batch * sequence * heads * dim, 5);
  CommandRunner runner;
  const Shape shape{batch, sequence, heads * dim};
  const Operand px = runner.floats(shape, x), y = runner.output(shape), back = runner.output(shape);
  const std::vector<CommandAttribute> attributes = {flag("heads", heads), flag("head_dim", dim),
                                                    real("theta", 10000.0)};
  runner.add("rope", {px}, {y}, attributes);
  std::vector<CommandAttribute> inverse = attributes;
  inverse.push_back(flag("inverse", 1));
  runner.add("rope", {y}, {back}, inverse);
  runner.run();
  Doubles want(x.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < sequence; ++s)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t i = 0; i < dim / 2; ++i) {
          const double angle = s * std::pow(10000.0, -2.0 * i / dim);
          const int64_t at = ((b * sequence + s) * heads + head) * dim + i;
          want[at] = x[at] * std::cos(angle) - x[at + dim / 2] * std::sin(angle);
          want[at + dim / 2] = x[at] * std::sin(angle) + x[at + dim / 2] * std::cos(angle);
        }
  EXPECT_CLOSE(runner.read(y), want);
  EXPECT_CLOSE(runner.read(back), Doubles(x.begin(), x.end()));
}

TEST(Rope, TurnsAPartByATable) {
  const int64_t sequence = 7, heads = 2, dim = 10, offset = 2, rotary = 6;
  const double table[] = {0.9, 0.5, 0.125}, factor = 1.25;
  for (bool interleaved : {false, true}) {
    const Floats x = randomFloats(sequence * heads * dim, 6);
    CommandRunner runner;
    const Operand px = runner.floats({1, sequence, heads * dim}, x),
                  y = runner.output({1, sequence, heads * dim});
    runner.add("rope", {px}, {y},
               {flag("heads", heads), flag("head_dim", dim), real("theta", 10000.0), flag("offset", offset),
                flag("rotary_dim", rotary), flag("interleaved", interleaved), real("factor", factor),
                text("frequencies", "0.9,0.5,0.125")});
    runner.run();
    Doubles want(x.begin(), x.end());
    for (int64_t s = 0; s < sequence; ++s)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t i = 0; i < rotary / 2; ++i) {
          const double angle = static_cast<double>(s) * table[i];
          const int64_t at = (s * heads + head) * dim + offset;
          const int64_t a = at + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + rotary / 2;
          want[a] = factor * (x[a] * std::cos(angle) - x[b] * std::sin(angle));
          want[b] = factor * (x[b] * std::cos(angle) + x[a] * std::sin(angle));
        }
    EXPECT_CLOSE(runner.read(y), want);
  }
}

} // namespace
} // namespace sluice::test
