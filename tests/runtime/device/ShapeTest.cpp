// Commands that look up, move or make values: exact.
#include "tests/runtime/device/CommandRunner.h"

namespace sluice::test {
namespace {

TEST(Lookup, EmbeddingAndItsGradient) {
  const int64_t vocabulary = 13, width = 37;
  const std::vector<int32_t> ids = {3, 12, 0, 3, 3, 7};
  const Floats table = randomFloats(vocabulary * width, 1), dy = randomFloats(6 * width, 2),
               old = randomFloats(vocabulary * width, 3);
  CommandRunner runner;
  const Operand pi = runner.integers({2, 3}, ids), pt = runner.floats({vocabulary, width}, table),
                pdy = runner.floats({2, 3, width}, dy);
  const Operand y = runner.output({2, 3, width}), gathered = runner.output({6, width});
  const Operand fresh = runner.output({vocabulary, width}), added = runner.floats({vocabulary, width}, old);
  runner.add("embedding", {pi, pt}, {y});
  runner.add("gather", {pt, pi}, {gathered});
  runner.add("embedding_gradient", {pi, pdy}, {fresh});
  runner.add("gather_gradient", {pi, pdy}, {added}, {flag("accumulate", 1)});
  runner.run();
  Doubles want, sum(table.size()), total(old.begin(), old.end());
  for (size_t i = 0; i < ids.size(); ++i)
    for (int64_t j = 0; j < width; ++j) {
      want.push_back(table[ids[i] * width + j]);
      sum[ids[i] * width + j] += dy[i * width + j];
      total[ids[i] * width + j] += dy[i * width + j];
    }
  EXPECT_EQ(relativeError(runner.read(y), want), 0);
  EXPECT_EQ(relativeError(runner.read(gathered), want), 0);
  EXPECT_CLOSE(runner.read(fresh), sum);
  EXPECT_CLOSE(runner.read(added), total);
}

/// Tables of one to three digits of eight bits, uses of several blocks, ids of one use and of thousands. The
/// numbers are small integers, whose sums are exact in any order.
TEST(Lookup, GradientsOfManyUses) {
  for (const auto &[vocabulary, uses] :
       {std::pair<int64_t, int64_t>{1, 3}, {256, 1025}, {257, 1023}, {5000, 2048}, {65537, 3000}}) {
    SCOPED_TRACE(testing::Message() << vocabulary << " rows, " << uses << " uses");
    const int64_t width = 3;
    std::mt19937 generator(7);
    std::vector<int32_t> ids;
    Floats dy;
    std::vector<double> sum(static_cast<size_t>(vocabulary * width));
    for (int64_t i = 0; i < uses; ++i) {
      // Every third use is of the last row.
      const auto id =
          i % 3 == 0 ? vocabulary - 1 : static_cast<int64_t>(generator() % static_cast<uint64_t>(vocabulary));
      ids.push_back(static_cast<int32_t>(id));
      for (int64_t j = 0; j < width; ++j) {
        dy.push_back(static_cast<float>(static_cast<int>(generator() % 17) - 8));
        sum[static_cast<size_t>(id * width + j)] += dy.back();
      }
    }
    CommandRunner runner;
    const Operand dtable = runner.output({vocabulary, width});
    runner.add("embedding_gradient", {runner.integers({uses}, ids), runner.floats({uses, width}, dy)},
               {dtable});
    runner.run();
    EXPECT_EQ(relativeError(runner.read(dtable), sum), 0);
  }
}

TEST(Lookup, NoUsesHaveNoGradient) {
  CommandRunner runner;
  const Operand dtable = runner.output({3, 2});
  runner.add("embedding_gradient", {runner.integers({0}, {}), runner.floats({0, 2}, {})}, {dtable});
  runner.run();
  EXPECT_EQ(runner.read(dtable), Floats(6));
}

TEST(Lookup, AGradientOfAnIdOutsideTheTableIsRefused) {
  for (int32_t id : {-1, 3, 1 << 24}) {
    CommandRunner runner;
    runner.add("embedding_gradient", {runner.integers({2}, {0, id}), runner.floats({2, 2}, Floats(4))},
               {runner.output({3, 2})});
    EXPECT_EQ(exitCode(runner.runWith(2)), ExitCode::BadInput) << id;
  }
}

TEST(Lookup, ATableWithoutRowsHasNoIds) {
  CommandRunner runner;
  runner.add("embedding_gradient", {runner.integers({2}, {0, 0}), runner.floats({2, 3}, Floats(6))},
             {runner.output({0, 3})});
  EXPECT_EQ(exitCode(runner.runWith(2)), ExitCode::BadInput);
}

TEST(Lookup, AnIdOutsideTheTableIsRefused) {
  CommandRunner runner;
  runner.add("embedding", {runner.integers({2}, {0, -1}), runner.floats({3, 2}, Floats(6))},
             {runner.output({2, 2})});
  EXPECT_EQ(exitCode(runner.runWith(2)), ExitCode::BadInput);
}

TEST(Moves, FillCopyTransposeSliceConcat) {
  const Floats x = randomFloats(3 * 5 * 7, 1), z = randomFloats(3 * 2 * 7, 2);
  CommandRunner runner;
  const Operand px = runner.floats({3, 5, 7}, x), pz = runner.floats({3, 2, 7}, z);
  const Operand filled = runner.output({1000}), counts = runner.output({3}, ElementType::I32),
                same = runner.output({15, 7});
  const Operand turned = runner.output({7, 3, 5}), swapped = runner.output({3, 7, 5}),
                part = runner.output({2, 3, 4}), joined = runner.output({3, 7, 7});
  runner.add("fill", {}, {filled}, {real("value", 0.25)});
  runner.add("fill", {}, {counts}, {flag("value", 4)});
  runner.add("copy", {px}, {same});
  runner.add("transpose", {px}, {turned}, {text("permutation", "2,0,1")});
  runner.add("transpose", {px}, {swapped}, {text("permutation", "0,2,1")});
  runner.add("slice", {px}, {part}, {text("offsets", "1,2,3")});
  runner.add("concat", {px, pz}, {joined}, {flag("axis", 1)});
  runner.run();
  EXPECT_EQ(runner.read(filled), Floats(1000, 0.25f));
  EXPECT_EQ(runner.readIntegers(counts), std::vector<int32_t>(3, 4));
  EXPECT_EQ(runner.read(same), x);
  Floats t1(105), t2(105), s, j;
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 5; ++b)
      for (int c = 0; c < 7; ++c) {
        t1[(c * 3 + a) * 5 + b] = t2[(a * 7 + c) * 5 + b] = x[(a * 5 + b) * 7 + c];
        if (a >= 1 && b >= 2 && c >= 3)
          s.push_back(x[(a * 5 + b) * 7 + c]);
      }
  for (int a = 0; a < 3; ++a) {
    j.insert(j.end(), x.begin() + a * 35, x.begin() + (a + 1) * 35);
    j.insert(j.end(), z.begin() + a * 14, z.begin() + (a + 1) * 14);
  }
  EXPECT_EQ(runner.read(turned), t1);
  EXPECT_EQ(runner.read(swapped), t2);
  EXPECT_EQ(runner.read(part), s);
  EXPECT_EQ(runner.read(joined), j);
}

TEST(Moves, PlacesOutsideTheInputAreRefused) {
  for (const char *offsets : {"2,0", "0,-1", "0", "0,x", "9999999999999999999,0"}) {
    CommandRunner runner;
    runner.add("slice", {runner.floats({3, 3}, Floats(9))}, {runner.output({2, 2})},
               {text("offsets", offsets)});
    EXPECT_EQ(exitCode(runner.runWith(1)), ExitCode::BadInput) << offsets;
  }
  CommandRunner twice;
  twice.add("transpose", {twice.floats({3, 3}, Floats(9))}, {twice.output({3, 3})},
            {text("permutation", "0,0")});
  EXPECT_EQ(exitCode(twice.runWith(1)), ExitCode::BadInput);
}

TEST(Contract, AnyEquation) {
  const Floats a = randomFloats(3 * 4 * 5, 1), b = randomFloats(3 * 5 * 6, 2),
               old = randomFloats(3 * 4 * 6, 3), u = randomFloats(4, 4), v = randomFloats(6, 5);
  CommandRunner runner;
  const Operand pa = runner.floats({3, 4, 5}, a), pb = runner.floats({3, 5, 6}, b),
                pc = runner.floats({3, 4, 6}, old);
  const Operand pu = runner.floats({4}, u), pv = runner.floats({6}, v), outer = runner.output({6, 4}),
                all = runner.output({});
  runner.add("contract", {pa, pb}, {pc}, {text("equation", "bij,bjk->bik"), flag("accumulate", 1)});
  runner.add("contract", {pu, pv}, {outer}, {text("equation", "i,j->ji")});
  runner.add("contract", {pu, pv}, {all}, {text("equation", "i,j->")});
  runner.run();
  Doubles c(old.begin(), old.end()), o(24), s(1);
  for (int n = 0; n < 3; ++n)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 5; ++j)
        for (int k = 0; k < 6; ++k)
          c[(n * 4 + i) * 6 + k] += static_cast<double>(a[(n * 4 + i) * 5 + j]) * b[(n * 5 + j) * 6 + k];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j) {
      o[j * 4 + i] = static_cast<double>(u[i]) * v[j];
      s[0] += o[j * 4 + i];
    }
  EXPECT_CLOSE(runner.read(pc), c);
  EXPECT_CLOSE(runner.read(outer), o);
  EXPECT_CLOSE(runner.read(all), s);
  for (const char *equation : {"ij->i", "i,j->k", "i,ij->j", "I,j->j", "i,j->jj", ""}) {
    CommandRunner bad;
    bad.add("contract", {bad.floats({4}, u), bad.floats({6}, v)}, {bad.output({6})},
            {text("equation", equation)});
    EXPECT_EQ(exitCode(bad.runWith(1)), ExitCode::BadInput) << equation;
  }
}

TEST(RandomNormal, DependsOnSeedAndStreamOnly) {
  CommandRunner runner;
  const Operand seed = runner.longs({1}, {42}), other = runner.longs({1}, {43});
  const Operand a = runner.output({300, 300}), b = runner.output({90000}), c = runner.output({90000}),
                d = runner.output({90000});
  auto add = [&](const Operand &s, const Operand &y, const char *stream) {
    runner.add("random_normal", {s}, {y},
               {text("stream", stream), real("mean", 0.5), real("standard_deviation", 2.0)});
  };
  add(seed, a, "embed");
  add(seed, b, "embed");
  add(seed, c, "head");
  add(other, d, "embed");
  runner.run();
  const Floats x = runner.read(a);
  EXPECT_EQ(x, runner.read(b));
  EXPECT_NE(x, runner.read(c));
  EXPECT_NE(x, runner.read(d));
  double mean = 0, variance = 0;
  for (float value : x)
    mean += value / 90000.0;
  for (float value : x)
    variance += (value - mean) * (value - mean) / 90000.0;
  EXPECT_NEAR(mean, 0.5, 5 * 2.0 / 300.0);
  EXPECT_NEAR(std::sqrt(variance), 2.0, 5 * 2.0 / 424.0);
}

} // namespace
} // namespace sluice::test
