// Products under masks of blocks against plain loops in double: kept blocks alone are read and written,
// whatever their size, and the mask may change between two runs of one program.
#include "tests/runtime/device/CommandRunner.h"
#include "tests/runtime/device/RoutingReference.h"

#include <algorithm>

namespace sluice::test {
namespace {

struct Shape2 {
  int64_t rows, columns;
};

/// Matrices of `down` x `across` blocks of which `kept` stay, the same number in each.
struct BlockMask {
  Shape2 block;
  int64_t matrices, down, across, kept;
  std::vector<bool> weights;

  BlockMask(Shape2 block, int64_t matrices, int64_t down, int64_t across, int64_t kept, int seed)
      : block(block), matrices(matrices), down(down), across(across), kept(kept),
        weights(static_cast<size_t>(matrices * out() * in())) {
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
      std::vector<bool> blocks(static_cast<size_t>(down * across));
      std::fill_n(blocks.begin(), kept, true);
      std::shuffle(blocks.begin(), blocks.end(), random);
      for (int64_t o = 0; o < out(); ++o)
        for (int64_t i = 0; i < in(); ++i)
          weights[static_cast<size_t>((matrix * out() + o) * in() + i)] =
              blocks[static_cast<size_t>(o / block.rows * across + i / block.columns)];
    }
  }
  int64_t out() const { return down * block.rows; }
  int64_t in() const { return across * block.columns; }
  int64_t keptWeights() const { return kept * block.rows * block.columns; }
  bool keeps(int64_t matrix, int64_t o, int64_t i) const {
    return weights[static_cast<size_t>((matrix * out() + o) * in() + i)];
  }
  std::vector<uint8_t> bits() const {
    std::vector<uint8_t> bits((weights.size() + 63) / 64 * 8);
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i])
        bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1u << (i % 8));
    return bits;
  }
  /// `values` with `dropped` where the mask drops.
  Floats over(Floats values, float dropped) const {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = weights[i] ? values[i] : dropped;
    return values;
  }
  /// The attributes of a product whose kernel skips zeros.
  std::vector<CommandAttribute> settings(std::vector<CommandAttribute> own) const {
    own.push_back(flag("kept", keptWeights()));
    own.push_back(flag("skip_at_most", keptWeights()));
    own.push_back(
        text("pattern", "block:" + std::to_string(block.rows) + "x" + std::to_string(block.columns)));
    return own;
  }
};

/// What the products of rows x [.., in] and dy [.., out] under a mask are; row r meets matrix matrixOf(r).
struct Expected {
  Doubles y, dx, dw;

  template <typename MatrixOf>
  Expected(const BlockMask &mask, const Floats &x, const Floats &dy, const Floats &w, MatrixOf matrixOf)
      : y(dy.size()), dx(x.size()), dw(w.size()) {
    const int64_t in = mask.in(), out = mask.out(), rows = static_cast<int64_t>(dy.size()) / out;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) {
          if (!mask.keeps(matrixOf(row), o, i))
            continue;
          const auto at = static_cast<size_t>((matrixOf(row) * out + o) * in + i);
          const double xi = x[static_cast<size_t>(row * in + i)], d = dy[static_cast<size_t>(row * out + o)];
          y[static_cast<size_t>(row * out + o)] += xi * w[at];
          dx[static_cast<size_t>(row * in + i)] += d * w[at];
          dw[at] += d * xi;
        }
  }
};

void expectZeroWhereDropped(const BlockMask &mask, const Floats &values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!mask.weights[i]) {
      ASSERT_EQ(values[i], 0.0f) << i;
    }
}

const float nan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t rows;
  Shape2 block;
  int64_t down, across, kept;
};

class MaskBlocks : public testing::TestWithParam<Case> {};

TEST_P(MaskBlocks, KeptBlocksAreMultipliedAndNothingElse) {
  const Case c = GetParam();
  const BlockMask mask(c.block, 1, c.down, c.across, c.kept, 1);
  const int64_t rows = c.rows, out = mask.out(), in = mask.in();
  // Blocks of another size than the tiles' are multiplied densely: there dropped weights are zeros.
  const bool whole = c.block.rows % 16 == 0 && c.block.columns % 16 == 0;
  const Floats x = randomFloats(rows * in, 2), dy = randomFloats(rows * out, 3), added = randomFloats(out, 6),
               w = mask.over(randomFloats(out * in, 4), whole ? nan : 0.0f),
               old = mask.over(randomFloats(out * in, 5), 0.0f), before = randomFloats(rows * in, 7);
  CommandRunner runner;
  const Operand px = runner.floats({rows, in}, x), pw = runner.floats({out, in}, w),
                pdy = runner.floats({rows, out}, dy), bits = runner.bytes(mask.bits()),
                bias = runner.floats({out}, added);
  const Operand y = runner.output({rows, out}), withBias = runner.output({rows, out}),
                dx = runner.output({rows, in}), summed = runner.floats({rows, in}, before),
                fresh = runner.output({out, in}), sum = runner.floats({out, in}, old);
  runner.add("refresh_derived_state", {}, {});
  const auto forward = mask.settings({flag("transpose_b", 1), flag("parameter_b", 1)});
  runner.add("masked_gemm", {px, pw, bits}, {y}, forward);
  runner.add("masked_gemm", {px, pw, bias, bits}, {withBias}, forward);
  runner.add("masked_gemm", {pdy, pw, bits}, {dx}, mask.settings({flag("parameter_b", 1)}));
  runner.add("masked_gemm", {pdy, pw, bits}, {summed},
             mask.settings({flag("parameter_b", 1), flag("accumulate", 1)}));
  runner.add("masked_weight_gradient", {pdy, px, bits}, {fresh}, mask.settings({}));
  runner.add("masked_weight_gradient", {pdy, px, bits}, {sum}, mask.settings({flag("accumulate", 1)}));
  runner.run();
  Expected want(mask, x, dy, w, [](int64_t) { return 0; });
  EXPECT_CLOSE(runner.read(y), want.y);
  EXPECT_CLOSE(runner.read(dx), want.dx);
  EXPECT_CLOSE(runner.read(fresh), want.dw);
  expectZeroWhereDropped(mask, runner.read(fresh));
  for (size_t i = 0; i < want.y.size(); ++i)
    want.y[i] += added[i % static_cast<size_t>(out)];
  for (size_t i = 0; i < want.dx.size(); ++i)
    want.dx[i] += before[i];
  for (size_t i = 0; i < want.dw.size(); ++i)
    want.dw[i] += old[i];
  EXPECT_CLOSE(runner.read(withBias), want.y);
  EXPECT_CLOSE(runner.read(summed), want.dx);
  EXPECT_CLOSE(runner.read(sum), want.dw);
  expectZeroWhereDropped(mask, runner.read(sum));
}

INSTANTIATE_TEST_SUITE_P(Shapes, MaskBlocks,
                         testing::Values(Case{1, {16, 16}, 1, 1, 1}, Case{37, {16, 16}, 3, 5, 4},
                                         Case{257, {16, 16}, 2, 35, 9}, Case{131, {32, 32}, 3, 4, 5},
                                         Case{65, {64, 64}, 2, 3, 2}, Case{70, {128, 64}, 1, 2, 1},
                                         Case{19, {16, 64}, 7, 2, 6}, Case{33, {64, 16}, 2, 5, 3},
                                         Case{67, {48, 80}, 3, 2, 2}, Case{130, {96, 32}, 2, 3, 4},
                                         Case{35, {2, 4}, 9, 7, 20}, Case{35, {24, 16}, 2, 3, 2}));

TEST(MaskBlocksOfExperts, EveryExpertHasItsOwn) {
  // Rows 150, 0, 1 and 66 of an expert.
  const BlockMask mask({32, 16}, 4, 3, 5, 4, 2);
  std::vector<int32_t> ids;
  for (auto [expert, count] : {std::pair{0, 150}, {2, 1}, {3, 66}})
    ids.insert(ids.end(), static_cast<size_t>(count), expert);
  const RoutingReference r = routingFromIds(ids, 1, 4);
  const int64_t rows = r.rows(), out = mask.out(), in = mask.in();
  const Floats x = randomFloats(rows * in, 2), dy = randomFloats(rows * out, 3),
               w = mask.over(randomFloats(4 * out * in, 4), nan),
               old = mask.over(randomFloats(4 * out * in, 5), 0.0f);
  CommandRunner runner;
  const Operand px = runner.floats({rows, in}, x), pdy = runner.floats({rows, out}, dy),
                pw = runner.floats({4, out, in}, w), routing = runner.integers(r.shape(), r.buffer),
                bits = runner.bytes(mask.bits());
  const Operand y = runner.output({rows, out}), dx = runner.output({rows, in}),
                fresh = runner.output({4, out, in}), sum = runner.floats({4, out, in}, old);
  auto settings = [&](std::vector<CommandAttribute> own) {
    own.push_back(flag("top_k", 1));
    return mask.settings(std::move(own));
  };
  runner.add("refresh_derived_state", {}, {});
  runner.add("masked_grouped_gemm", {px, pw, routing, bits}, {y}, settings({}));
  runner.add("masked_grouped_gemm", {pdy, pw, routing, bits}, {dx}, settings({flag("transpose_w", 1)}));
  runner.add("masked_grouped_weight_gradient", {pdy, px, routing, bits}, {fresh}, settings({}));
  runner.add("masked_grouped_weight_gradient", {pdy, px, routing, bits}, {sum},
             settings({flag("accumulate", 1)}));
  runner.run();
  Expected want(mask, x, dy, w, [&](int64_t row) { return r.expertOfRow(row); });
  EXPECT_CLOSE(runner.read(y), want.y);
  EXPECT_CLOSE(runner.read(dx), want.dx);
  EXPECT_CLOSE(runner.read(fresh), want.dw);
  expectZeroWhereDropped(mask, runner.read(fresh));
  for (size_t i = 0; i < want.dw.size(); ++i)
    want.dw[i] += old[i];
  EXPECT_CLOSE(runner.read(sum), want.dw);
  expectZeroWhereDropped(mask, runner.read(sum));
}

TEST(MaskBlocksOfOneProgram, FollowTheMaskFromRunToRun) {
  const int64_t rows = 21;
  const BlockMask one({16, 32}, 1, 4, 3, 5, 1), other({16, 32}, 1, 4, 3, 5, 2);
  ASSERT_NE(one.weights, other.weights);
  const int64_t out = one.out(), in = one.in();
  const Floats x = randomFloats(rows * in, 2), dy = randomFloats(rows * out, 3),
               w = randomFloats(out * in, 4);
  // Places in one arena: x, dy, w, mask, y, dx, dw.
  std::vector<uint8_t> arena;
  auto place = [&](ElementType type, const Shape &shape, const void *bytes) {
    Operand operand{type, shape, 0, arena.size()};
    arena.resize((arena.size() + operand.bytes() + 63) / 64 * 64);
    if (bytes)
      std::memcpy(arena.data() + operand.offset, bytes, operand.bytes());
    return operand;
  };
  const Operand px = place(ElementType::F32, {rows, in}, x.data()),
                pdy = place(ElementType::F32, {rows, out}, dy.data()),
                pw = place(ElementType::F32, {out, in}, nullptr),
                bits = place(ElementType::U8, {static_cast<int64_t>(one.bits().size())}, nullptr),
                y = place(ElementType::F32, {rows, out}, nullptr),
                dx = place(ElementType::F32, {rows, in}, nullptr),
                dw = place(ElementType::F32, {out, in}, nullptr);
  const std::vector<Command> commands = {
      {"refresh_derived_state", "test", {}, {}, {}, {}},
      {"masked_gemm",
       "test",
       {px, pw, bits},
       {y},
       one.settings({flag("transpose_b", 1), flag("parameter_b", 1)}),
       {}},
      {"masked_gemm", "test", {pdy, pw, bits}, {dx}, one.settings({flag("parameter_b", 1)}), {}},
      {"masked_weight_gradient", "test", {pdy, px, bits}, {dw}, one.settings({}), {}}};
  StatusOr<Device *> device = testDevice(1);
  ASSERT_TRUE(device.ok()) << device.status();
  StatusOr<std::unique_ptr<DeviceMemory>> memory = (*device)->allocate(arena.size());
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE((*memory)->write(0, arena.data(), arena.size()).ok());
  DeviceMemory *const arenas[] = {memory->get()};
  StatusOr<std::unique_ptr<DeviceProgram>> program = (*device)->prepare(commands, arenas);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const BlockMask *mask : {&one, &other, &one}) {
    const Floats weights = mask->over(w, 0.0f);
    const std::vector<uint8_t> now = mask->bits();
    ASSERT_TRUE((*memory)->write(pw.offset, weights.data(), pw.bytes()).ok());
    ASSERT_TRUE((*memory)->write(bits.offset, now.data(), bits.bytes()).ok());
    const Status ran = (*program)->execute();
    ASSERT_TRUE(ran.ok()) << ran;
    auto read = [&](const Operand &operand) {
      Floats values(static_cast<size_t>(operand.elements()));
      EXPECT_TRUE((*memory)->read(operand.offset, values.data(), operand.bytes()).ok());
      return values;
    };
    const Expected want(*mask, x, dy, weights, [](int64_t) { return 0; });
    EXPECT_CLOSE(read(y), want.y);
    EXPECT_CLOSE(read(dx), want.dx);
    EXPECT_CLOSE(read(dw), want.dw);
    expectZeroWhereDropped(*mask, read(dw));
  }
  const Status clean = checkTestDevice();
  EXPECT_TRUE(clean.ok()) << clean;
}

TEST(MaskBlocksOfOneProgram, MayBeFewerThanTheTypeSays) {
  // Pruning has left 4 of 40 x 3 blocks: more lines than a warp has lanes.
  const BlockMask mask({16, 16}, 1, 40, 3, 4, 1);
  const int64_t rows = 5, out = mask.out(), in = mask.in();
  const Floats x = randomFloats(rows * in, 1), dy = randomFloats(rows * out, 2),
               w(static_cast<size_t>(out * in));
  CommandRunner runner;
  const Operand dw = runner.output({out, in});
  runner.add("masked_weight_gradient",
             {runner.floats({rows, out}, dy), runner.floats({rows, in}, x), runner.bytes(mask.bits())}, {dw},
             {flag("kept", out * in), flag("skip_at_most", 0), text("pattern", "block:16x16")});
  runner.run();
  EXPECT_CLOSE(runner.read(dw), Expected(mask, x, dy, w, [](int64_t) { return 0; }).dw);
  expectZeroWhereDropped(mask, runner.read(dw));
}

} // namespace
} // namespace sluice::test
