// Dispatch, combine, grouped products and the fused expert kernels against float64 loops, under every kind of
// assignment: random, with empty experts, all on one expert, a single expert, a single token.
#include "tests/runtime/device/RoutingReference.h"

namespace sluice::test {
namespace {

struct ExpertsCase {
  int64_t tokens, topK, experts, d, f;
  std::string kind;
};

std::vector<ExpertsCase> cases() {
  std::vector<ExpertsCase> all, large;
  for (const char *kind : {"random", "holes", "one"}) {
    all.push_back({1, 1, 1, 3, 5, kind});
    all.push_back({1, 2, 5, 7, 11, kind});
    all.push_back({37, 2, 5, 13, 17, kind});
    all.push_back({47, 3, 4, 5, 70, kind}); // more than a tile of rows and of columns
    large.push_back({301, 3, 4, 33, 70, kind});
    large.push_back({400, 1, 3, 20, 540, kind});
  }
  return casesFor(all, large);
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double siluSlope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

TEST(Experts, MovingRows) {
  for (const ExpertsCase &c : cases()) {
    const RoutingReference r =
        routingFromIds(assignment(c.kind, c.tokens, c.topK, c.experts), c.topK, c.experts);
    const Floats x = randomFloats(c.tokens * c.d, 1), gates = randomFloats(r.rows(), 2),
                 ye = randomFloats(r.rows() * c.d, 3);
    CommandRunner runner;
    const Operand px = runner.floats({c.tokens, c.d}, x), pr = runner.integers(r.shape(), r.buffer);
    const Operand pg = runner.floats({c.tokens, c.topK}, gates), pe = runner.floats({r.rows(), c.d}, ye);
    const Operand plain = runner.output({r.rows(), c.d}), weighted = runner.output({r.rows(), c.d});
    const Operand sum = runner.output({c.tokens, c.d}), weightedSum = runner.output({c.tokens, c.d});
    const Operand dgates = runner.output({c.tokens, c.topK}), sums = runner.output({c.experts, c.d});
    const std::vector<CommandAttribute> k = {flag("top_k", c.topK)};
    runner.add("dispatch", {px, pr}, {plain}, k);
    runner.add("dispatch", {px, pr, pg}, {weighted}, k);
    runner.add("combine", {pe, pr}, {sum}, k);
    runner.add("combine", {pe, pr, pg}, {weightedSum}, k);
    runner.add("combine_gate_gradient", {px, pe, pr}, {dgates}, k);
    runner.add("grouped_sum", {pe, pr}, {sums}, k);
    runner.run();
    Doubles a(ye.size()), b(ye.size()), s(x.size()), ws(x.size()), dg(gates.size()), es(c.experts * c.d);
    for (int64_t row = 0; row < r.rows(); ++row)
      for (int64_t i = 0; i < c.d; ++i) {
        const int64_t slot = r.slotOf(row), t = r.tokenOfRow(row);
        a[row * c.d + i] = x[t * c.d + i];
        b[row * c.d + i] = static_cast<double>(x[t * c.d + i]) * gates[slot];
        s[t * c.d + i] += ye[row * c.d + i];
        ws[t * c.d + i] += static_cast<double>(gates[slot]) * ye[row * c.d + i];
        dg[slot] += static_cast<double>(x[t * c.d + i]) * ye[row * c.d + i];
        es[r.expertOfRow(row) * c.d + i] += ye[row * c.d + i];
      }
    EXPECT_CLOSE(runner.read(plain), a);
    EXPECT_CLOSE(runner.read(weighted), b);
    EXPECT_CLOSE(runner.read(sum), s);
    EXPECT_CLOSE(runner.read(weightedSum), ws);
    EXPECT_CLOSE(runner.read(dgates), dg);
    EXPECT_CLOSE(runner.read(sums), es);
  }
}

TEST(Experts, GroupedProducts) {
  for (const ExpertsCase &c : cases())
    for (bool flip : {false, true}) {
      const RoutingReference r =
          routingFromIds(assignment(c.kind, c.tokens, c.topK, c.experts), c.topK, c.experts);
      const Floats x = randomFloats(r.rows() * c.d, 1), w = randomFloats(c.experts * c.f * c.d, 2);
      const Floats bias = randomFloats(c.experts * c.f, 3), dy = randomFloats(r.rows() * c.f, 4),
                   old = randomFloats(c.experts * c.f * c.d, 5);
      CommandRunner runner;
      const Operand px = runner.floats({r.rows(), c.d}, x), pr = runner.integers(r.shape(), r.buffer);
      const Operand pw = runner.floats(flip ? Shape{c.experts, c.d, c.f} : Shape{c.experts, c.f, c.d}, w);
      const Operand pb = runner.floats({c.experts, c.f}, bias), pdy = runner.floats({r.rows(), c.f}, dy);
      const Operand y = runner.output({r.rows(), c.f});
      const Operand dw =
          flip ? runner.floats({c.experts, c.f, c.d}, old) : runner.output({c.experts, c.f, c.d});
      runner.add("grouped_gemm", {px, pw, pr, pb}, {y}, {flag("top_k", c.topK), flag("transpose_w", flip)});
      runner.add("grouped_weight_gradient", {pdy, px, pr}, {dw},
                 {flag("top_k", c.topK), flag("accumulate", flip)});
      runner.run();
      Doubles wantY(dy.size()), wantW(old.size());
      if (flip)
        wantW.assign(old.begin(), old.end());
      for (int64_t row = 0; row < r.rows(); ++row)
        for (int64_t o = 0; o < c.f; ++o) {
          const int64_t e = r.expertOfRow(row);
          wantY[row * c.f + o] = bias[e * c.f + o];
          for (int64_t i = 0; i < c.d; ++i) {
            wantY[row * c.f + o] +=
                static_cast<double>(x[row * c.d + i]) * w[e * c.f * c.d + (flip ? i * c.f + o : o * c.d + i)];
            wantW[(e * c.f + o) * c.d + i] += static_cast<double>(dy[row * c.f + o]) * x[row * c.d + i];
          }
        }
      EXPECT_CLOSE(runner.read(y), wantY);
      EXPECT_CLOSE(runner.read(dw), wantW);
    }
}

TEST(Experts, FusedForwardAndBackward) {
  for (const ExpertsCase &c : cases())
    for (bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << c.kind << " T" << c.tokens << " K" << c.topK << " E" << c.experts);
      const RoutingReference r =
          routingFromIds(assignment(c.kind, c.tokens, c.topK, c.experts), c.topK, c.experts);
      const int64_t rows = r.rows(), n = c.experts * c.f * c.d;
      const Floats x = randomFloats(c.tokens * c.d, 1), gates = randomFloats(rows, 2);
      const Floats wg = randomFloats(n, 3, 0.3), wu = randomFloats(n, 4, 0.3), wd = randomFloats(n, 5, 0.3);
      const Floats dout = randomFloats(c.tokens * c.d, 6), old = randomFloats(n, 7);
      CommandRunner runner;
      const Operand px = runner.floats({c.tokens, c.d}, x), pr = runner.integers(r.shape(), r.buffer);
      const Operand pg = runner.floats({c.tokens, c.topK}, gates),
                    pdout = runner.floats({c.tokens, c.d}, dout);
      const Shape upShape{c.experts, c.f, c.d}, downShape{c.experts, c.d, c.f}, wide{rows, c.f};
      const Operand pwg = runner.floats(upShape, wg), pwu = runner.floats(upShape, wu),
                    pwd = runner.floats(downShape, wd);
      const Operand gate = runner.output(wide), up = runner.output(wide), act = runner.output(wide);
      const Operand ye = runner.output({rows, c.d}), out = runner.output({c.tokens, c.d});
      const Operand dgates = runner.output({c.tokens, c.topK}), dgate = runner.output(wide),
                    dup = runner.output(wide);
      const Operand dx = runner.output({c.tokens, c.d});
      auto gradient = [&](const Shape &shape) {
        return accumulate ? runner.floats(shape, old) : runner.output(shape);
      };
      const Operand dwd = gradient(downShape), dwg = gradient(upShape), dwu = gradient(upShape);
      const std::vector<CommandAttribute> k = {flag("top_k", c.topK), flag("accumulate", accumulate)};
      runner.add("experts_up", {px, pr, pwg, pwu}, {gate, up, act}, k);
      runner.add("experts_down", {act, pr, pg, pwd}, {ye, out}, k);
      runner.add("experts_down_gradient", {pdout, pr, pg, pwd, gate, up, ye}, {dgates, dgate, dup}, k);
      runner.add("experts_down_weight_gradient", {pdout, pr, pg, act}, {dwd}, k);
      runner.add("experts_up_gradient", {dgate, dup, pr, pwg, pwu}, {dx}, k);
      runner.add("experts_up_weight_gradient", {px, pr, dgate, dup}, {dwg, dwu}, k);
      runner.run();

      Doubles wGate(rows * c.f), wUp(rows * c.f), wAct(rows * c.f), wYe(rows * c.d), wOut(c.tokens * c.d),
          wDgates(rows);
      Doubles wDgate(rows * c.f), wDup(rows * c.f), wDx(c.tokens * c.d), wDwd(n), wDwg(n), wDwu(n);
      if (accumulate)
        wDwd.assign(old.begin(), old.end()), wDwg = wDwd, wDwu = wDwd;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t e = r.expertOfRow(row), t = r.tokenOfRow(row), slot = r.slotOf(row);
        for (int64_t j = 0; j < c.f; ++j) {
          double a = 0, b = 0, dact = 0;
          for (int64_t i = 0; i < c.d; ++i) {
            a += static_cast<double>(x[t * c.d + i]) * wg[(e * c.f + j) * c.d + i];
            b += static_cast<double>(x[t * c.d + i]) * wu[(e * c.f + j) * c.d + i];
            dact += static_cast<double>(gates[slot]) * dout[t * c.d + i] * wd[(e * c.d + i) * c.f + j];
          }
          const int64_t at = row * c.f + j;
          wGate[at] = a, wUp[at] = b, wAct[at] = silu(a) * b;
          wDgate[at] = dact * b * siluSlope(a), wDup[at] = dact * silu(a);
        }
        for (int64_t i = 0; i < c.d; ++i) {
          double y = 0;
          for (int64_t j = 0; j < c.f; ++j) {
            const int64_t at = row * c.f + j;
            y += wAct[at] * wd[(e * c.d + i) * c.f + j];
            wDx[t * c.d + i] +=
                wDgate[at] * wg[(e * c.f + j) * c.d + i] + wDup[at] * wu[(e * c.f + j) * c.d + i];
            wDwd[(e * c.d + i) * c.f + j] += gates[slot] * dout[t * c.d + i] * wAct[at];
            wDwg[(e * c.f + j) * c.d + i] += wDgate[at] * x[t * c.d + i];
            wDwu[(e * c.f + j) * c.d + i] += wDup[at] * x[t * c.d + i];
          }
          wYe[row * c.d + i] = y;
          wOut[t * c.d + i] += gates[slot] * y;
          wDgates[slot] += dout[t * c.d + i] * y;
        }
      }
      EXPECT_CLOSE(runner.read(gate), wGate);
      EXPECT_CLOSE(runner.read(up), wUp);
      EXPECT_CLOSE(runner.read(act), wAct);
      EXPECT_CLOSE(runner.read(ye), wYe);
      EXPECT_CLOSE(runner.read(out), wOut);
      EXPECT_CLOSE(runner.read(dgates), wDgates);
      EXPECT_CLOSE(runner.read(dgate), wDgate);
      EXPECT_CLOSE(runner.read(dup), wDup);
      EXPECT_CLOSE(runner.read(dx), wDx);
      EXPECT_CLOSE(runner.read(dwd), wDwd);
      EXPECT_CLOSE(runner.read(dwg), wDwg);
      EXPECT_CLOSE(runner.read(dwu), wDwu);
    }
}

} // namespace
} // namespace sluice::test
