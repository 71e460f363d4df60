// attention_forward, attention_backward and rope against float64 loops; the backward within 1e-4.
#include "tests/runtime/device/CommandRunner.h"

namespace sluice::test {
namespace {

struct AttentionCase {
  int64_t batch, sequence, heads, keyHeads, dim;
  bool causal;
};

/// Everything in float64, straight from the definition.
struct Reference {
  Doubles out, lse, dq, dk, dv;
};

Reference reference(const AttentionCase &c, const Floats &q, const Floats &k, const Floats &v,
                    const Floats &dout, double scale) {
  const int64_t qw = c.heads * c.dim, kw = c.keyHeads * c.dim;
  Reference r{Doubles(q.size()), Doubles(c.batch * c.heads * c.sequence), Doubles(q.size()),
              Doubles(k.size()), Doubles(k.size())};
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t head = 0; head < c.heads; ++head)
      for (int64_t i = 0; i < c.sequence; ++i) {
        const int64_t n = c.causal ? i + 1 : c.sequence, qa = (b * c.sequence + i) * qw + head * c.dim;
        auto ka = [&](int64_t j) {
          return (b * c.sequence + j) * kw + head / (c.heads / c.keyHeads) * c.dim;
        };
        Doubles p(n);
        double most = -1e300, mass = 0;
        for (int64_t j = 0; j < n; ++j) {
          double s = 0;
          for (int64_t x = 0; x < c.dim; ++x)
            s += static_cast<double>(q[qa + x]) * k[ka(j) + x];
          p[j] = s * scale;
          most = std::max(most, p[j]);
        }
        for (int64_t j = 0; j < n; ++j)
          mass += std::exp(p[j] - most);
        const double lse = most + std::log(mass);
        r.lse[(b * c.heads + head) * c.sequence + i] = lse;
        double inner = 0;
        Doubles dp(n);
        for (int64_t j = 0; j < n; ++j) {
          p[j] = std::exp(p[j] - lse);
          for (int64_t x = 0; x < c.dim; ++x) {
            r.out[qa + x] += p[j] * v[ka(j) + x];
            dp[j] += static_cast<double>(dout[qa + x]) * v[ka(j) + x];
            r.dv[ka(j) + x] += p[j] * dout[qa + x];
          }
          inner += p[j] * dp[j];
        }
        for (int64_t j = 0; j < n; ++j)
          for (int64_t x = 0; x < c.dim; ++x) {
            r.dq[qa + x] += scale * p[j] * (dp[j] - inner) * k[ka(j) + x];
            r.dk[ka(j) + x] += scale * p[j] * (dp[j] - inner) * q[qa + x];
          }
      }
  return r;
}

void check(const AttentionCase &c) {
  SCOPED_TRACE(testing::Message() << c.batch << " " << c.sequence << " " << c.heads << ":" << c.keyHeads
                                  << " " << c.dim << " causal " << c.causal);
  const double scale = 1.0 / std::sqrt(static_cast<double>(c.dim));
  const Shape qs{c.batch, c.sequence, c.heads * c.dim}, ks{c.batch, c.sequence, c.keyHeads * c.dim};
  const Floats q = randomFloats(count(qs), 1), k = randomFloats(count(ks), 2), v = randomFloats(count(ks), 3);
  const Floats dout = randomFloats(count(qs), 4);
  CommandRunner runner;
  const Operand pq = runner.floats(qs, q), pk = runner.floats(ks, k), pv = runner.floats(ks, v),
                pd = runner.floats(qs, dout);
  const Operand out = runner.output(qs), lse = runner.output({c.batch, c.heads, c.sequence});
  const Operand dq = runner.output(qs), dk = runner.output(ks), dv = runner.output(ks);
  const std::vector<CommandAttribute> attributes = {flag("heads", c.heads), flag("kv_heads", c.keyHeads),
                                                    flag("head_dim", c.dim), flag("causal", c.causal),
                                                    real("scale", scale)};
  runner.add("attention_forward", {pq, pk, pv}, {out, lse}, attributes);
  runner.add("attention_backward", {pq, pk, pv, out, lse, pd}, {dq, dk, dv}, attributes);
  runner.run();
  const Reference want = reference(c, q, k, v, dout, scale);
  EXPECT_CLOSE(runner.read(out), want.out);
  EXPECT_CLOSE(runner.read(lse), want.lse);
  EXPECT_LE(relativeError(runner.read(dq), want.dq), 1e-4);
  EXPECT_LE(relativeError(runner.read(dk), want.dk), 1e-4);
  EXPECT_LE(relativeError(runner.read(dv), want.dv), 1e-4);
}

TEST(Attention, AgainstTheDefinition) {
  for (bool causal : {true, false}) {
    check({1, 1, 1, 1, 1, causal});
    check({2, 7, 3, 1, 5, causal});
    check({1, 64, 4, 2, 16, causal});
    check({2, 131, 6, 2, 8, causal});
    check({1, 521, 2, 2, 12, causal}); // more than two blocks of keys
  }
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

} // namespace
} // namespace sluice::test
