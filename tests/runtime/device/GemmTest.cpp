// gemm against plain float64 loops, in all orientations and odd sizes.
#include "tests/runtime/device/CommandRunner.h"

namespace sluice::test {
namespace {

struct Case {
  int64_t m, n, k;
  bool transposeA, transposeB, accumulate, bias, parameter;
};

void check(const Case &c) {
  SCOPED_TRACE(testing::Message() << c.m << "x" << c.n << "x" << c.k << " " << c.transposeA << c.transposeB
                                  << c.accumulate << c.bias << c.parameter);
  const Floats a = randomFloats(c.m * c.k, 1), b = randomFloats(c.k * c.n, 2), bias = randomFloats(c.n, 3);
  const Floats old = randomFloats(c.m * c.n, 4);
  CommandRunner runner;
  const Operand pa = runner.floats(c.transposeA ? Shape{c.k, c.m} : Shape{c.m, c.k}, a);
  const Operand pb = runner.floats(c.transposeB ? Shape{c.n, c.k} : Shape{c.k, c.n}, b);
  std::vector<Operand> inputs = {pa, pb};
  if (c.bias)
    inputs.push_back(runner.floats({c.n}, bias));
  const Operand pc = c.accumulate ? runner.floats({c.m, c.n}, old) : runner.output({c.m, c.n});
  runner.add("gemm", inputs, {pc},
             {flag("transpose_a", c.transposeA), flag("transpose_b", c.transposeB),
              flag("accumulate", c.accumulate), flag("parameter_b", c.parameter)});
  runner.run();
  Doubles want(static_cast<size_t>(c.m * c.n));
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = (c.accumulate ? old[i * c.n + j] : 0.0) + (c.bias ? bias[j] : 0.0);
      for (int64_t p = 0; p < c.k; ++p)
        sum += static_cast<double>(c.transposeA ? a[p * c.m + i] : a[i * c.k + p]) *
               (c.transposeB ? b[j * c.k + p] : b[p * c.n + j]);
      want[i * c.n + j] = sum;
    }
  EXPECT_CLOSE(runner.read(pc), want);
}

TEST(Gemm, AllOrientationsAndOddSizes) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (bool accumulate : {false, true}) {
        for (const Case &c :
             casesFor<Case>({{1, 1, 1, transposeA, transposeB, accumulate, false, false},
                             {7, 13, 5, transposeA, transposeB, accumulate, true, false},
                             {67, 70, 35, transposeA, transposeB, accumulate, false, true}},
                            {{131, 97, 61, transposeA, transposeB, accumulate, false, true},
                             {300, 67, 530, transposeA, transposeB, accumulate, true, false},
                             {65, 600, 33, transposeA, transposeB, accumulate, false, false}}))
          check(c);
      }
}

TEST(Gemm, EmptyReductionGivesZerosAndNoRowsGiveNothing) {
  check({5, 3, 0, false, true, false, true, false});
  check({0, 3, 4, false, true, false, false, false});
}

TEST(Gemm, LeadingDimensionsAreFoldedIntoRows) {
  const Floats x = randomFloats(2 * 3 * 4, 1), dy = randomFloats(2 * 3 * 5, 2);
  CommandRunner runner;
  const Operand px = runner.floats({2, 3, 4}, x), pdy = runner.floats({2, 3, 5}, dy),
                pw = runner.output({5, 4});
  runner.add("gemm", {pdy, px}, {pw}, {flag("transpose_a", 1)});
  runner.run();
  Doubles want(20);
  for (int t = 0; t < 6; ++t)
    for (int o = 0; o < 5; ++o)
      for (int i = 0; i < 4; ++i)
        want[o * 4 + i] += static_cast<double>(dy[t * 5 + o]) * x[t * 4 + i];
  EXPECT_CLOSE(runner.read(pw), want);
}

TEST(Gemm, DisagreeingShapesAreNamed) {
  CommandRunner runner;
  const Operand a = runner.output({4, 5}), b = runner.output({6, 3}), c = runner.output({4, 3});
  runner.add("gemm", {a, b}, {c});
  Status status = runner.runWith(1);
  EXPECT_EQ(exitCode(status), ExitCode::BadInput);
  EXPECT_NE(std::string(status.message()).find("reduced dimension"), std::string::npos) << status;
}

} // namespace
} // namespace sluice::test
