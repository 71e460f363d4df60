// The ledger on a small written model against brute-force counts, and its messages and formats.
#include "dialects/ledger/Ledger.h"
#include "dialects/ledger/Executed.h"
#include "dialects/ledger/LedgerFormat.h"
#include "dialects/plan/Plan.h"
#include "runtime/abi/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace mlir;

namespace sluice {
namespace {

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// Two layers of attention (4 heads over 2 key/value heads of 2), 4 experts top-2 of width 6, a shared expert
/// of width 5, width 8, vocabulary 11, batch 2, sequence 5. RB: the routing type; X: the residual stream.
std::string tinyMoe() {
  std::string text = R"(
sluice.graph @model(%tokens: tensor<2x5xi32>, %targets: tensor<2x5xi32>) {
  %table = sluice.param "table" init #sluice.normal<0.02> role "embedding" : tensor<11x8xf32>
  %h0 = sluice.embedding %tokens, %table : (tensor<2x5xi32>, tensor<11x8xf32>) -> X
  %h = sluice.repeat "layers" times 2 (%x = %h0) : (X) -> X {
    %a = sluice.scope "attn" role "attention" -> X {
      %wq = sluice.param "wq" init #sluice.normal<0.02> role "attention" : tensor<8x8xf32>
      %wk = sluice.param "wk" init #sluice.normal<0.02> role "attention" : tensor<4x8xf32>
      %wv = sluice.param "wv" init #sluice.normal<0.02> role "attention" : tensor<4x8xf32>
      %wo = sluice.param "wo" init #sluice.normal<0.02> role "attention" : tensor<8x8xf32>
      %q = sluice.linear %x, %wq : (X, tensor<8x8xf32>) -> X
      %k = sluice.linear %x, %wk : (X, tensor<4x8xf32>) -> tensor<2x5x4xf32>
      %v = sluice.linear %x, %wv : (X, tensor<4x8xf32>) -> tensor<2x5x4xf32>
      %o, %lse = sluice.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, causal = true, scale = 0.7 : f64}
          : (X, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> (X, tensor<2x4x5xf32>)
      %out = sluice.linear %o, %wo : (X, tensor<8x8xf32>) -> X
      sluice.yield %out : X
    }
    %m = sluice.scope "moe" role "expert" -> X {
      %wr = sluice.param "router" init #sluice.normal<0.02> role "router" : tensor<4x8xf32>
      %l = sluice.linear %a, %wr : (X, tensor<4x8xf32>) -> tensor<2x5x4xf32>
      %r, %g, %p = sluice.route %l {top_k = 2 : i64, score = "softmax", renormalize = true}
          : (tensor<2x5x4xf32>) -> (RB, tensor<2x5x2xf32>, tensor<2x5x4xf32>)
      %rows = sluice.dispatch %a by %r : (X, RB) -> tensor<20x8xf32>
      %e = sluice.experts by %r : RB (%row = %rows) : (tensor<20x8xf32>) -> tensor<20x8xf32> {
        %w1 = sluice.param "w1" init #sluice.normal<0.02> role "expert" : tensor<6x8xf32>
        %w3 = sluice.param "w3" init #sluice.normal<0.02> role "expert" : tensor<6x8xf32>
        %w2 = sluice.param "w2" init #sluice.normal<0.02> role "expert" : tensor<8x6xf32>
        %gate = sluice.linear %row, %w1 : (tensor<20x8xf32>, tensor<6x8xf32>) -> tensor<20x6xf32>
        %up = sluice.linear %row, %w3 : (tensor<20x8xf32>, tensor<6x8xf32>) -> tensor<20x6xf32>
        %act = sluice.swiglu %gate, %up : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
        %down = sluice.linear %act, %w2 : (tensor<20x6xf32>, tensor<8x6xf32>) -> tensor<20x8xf32>
        sluice.yield %down : tensor<20x8xf32>
      }
      %c = sluice.combine %e by %r gates %g : (tensor<20x8xf32>, RB, tensor<2x5x2xf32>) -> X
      %s1 = sluice.param "s1" init #sluice.normal<0.02> role "shared" : tensor<5x8xf32>
      %s3 = sluice.param "s3" init #sluice.normal<0.02> role "shared" : tensor<5x8xf32>
      %s2 = sluice.param "s2" init #sluice.normal<0.02> role "shared" : tensor<8x5xf32>
      %sg = sluice.linear %a, %s1 : (X, tensor<5x8xf32>) -> tensor<2x5x5xf32>
      %su = sluice.linear %a, %s3 : (X, tensor<5x8xf32>) -> tensor<2x5x5xf32>
      %sa = sluice.swiglu %sg, %su : (tensor<2x5x5xf32>, tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
      %sd = sluice.linear %sa, %s2 : (tensor<2x5x5xf32>, tensor<8x5xf32>) -> X
      %y = sluice.add %c, %sd : (X, X) -> X
      sluice.yield %y : X
    }
    sluice.yield %m : X
  }
  %logits = sluice.linear %h, %table : (X, tensor<11x8xf32>) -> tensor<2x5x11xf32>
  %loss = sluice.cross_entropy %logits, %targets : (tensor<2x5x11xf32>, tensor<2x5xi32>) -> tensor<f32>
  sluice.return %logits, %loss ["logits", "loss_sum"] : tensor<2x5x11xf32>, tensor<f32>
}
)";
  return replaced(replaced(text, "X", "tensor<2x5x8xf32>"), "RB",
                  "!sluice.routing<experts = 4, top_k = 2, tokens = \"10\">");
}

StatusOr<Ledger> ledgerOf(const std::string &text) {
  MLIRContext context;
  context.loadDialect<SluiceDialect, plan::PlanDialect, arith::ArithDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return failure("does not parse");
  return makeLedger(*module);
}

TEST(LedgerTest, TinyMoeMatchesCountedLoops) {
  StatusOr<Ledger> ledger = ledgerOf(tinyMoe());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  // Brute-force count of the scalar loops: oracle "tiny_moe_shared_causal".
  EXPECT_EQ(ledger->forward().counts.ideal.contraction, 28960u);
  // Full attention adds 2 layers' 2 products over 10 instead of 25 of the square: 2 * (1600 - 960).
  EXPECT_EQ(ledger->forward().fullAttention.contraction, 28960u + 2 * 640u);
  // All four experts double the routed products (3 * 3840).
  EXPECT_EQ(ledger->forward().counts.dense.contraction, 28960u + 2 * 640u + 3 * 3840u);
  // One tied table, 2 layers of attention 192, router 32, experts 4 * 144, shared 120.
  EXPECT_EQ(ledger->parameters.total, 88u + 2 * (192 + 32 + 576 + 120));
  EXPECT_EQ(ledger->parameters.active, 88u + 2 * (192 + 32 + 288 + 120));
  EXPECT_EQ(ledger->parameters.activeWithoutInputTable,
            ledger->parameters.active); // tied: it is the head too
  EXPECT_EQ(ledger->parameters.activeNonEmbedding, ledger->parameters.active - 88);
  EXPECT_EQ(ledger->parameters.byRole.at("expert"), 2u * 576);
  EXPECT_FALSE(ledger->hasBackward);
}

TEST(LedgerTest, SumsByOpLayerPathAndRoleAgree) {
  StatusOr<Ledger> ledger = ledgerOf(tinyMoe());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  auto sumOf = [&](auto key, const auto &value) {
    return ledger->sum([&](const LedgerRow &row) { return key(row) == value; }).counts.ideal.contraction;
  };
  auto layer = [](const LedgerRow &row) { return row.layer; };
  auto role = [](const LedgerRow &row) { return row.role; };
  EXPECT_EQ(sumOf(layer, 0), sumOf(layer, 1));
  EXPECT_EQ(sumOf(layer, -1) + sumOf(layer, 0) + sumOf(layer, 1), 28960u);
  EXPECT_EQ(sumOf(layer, -1), 1760u); // the head
  EXPECT_EQ(sumOf(role, std::string("attention")), 2560u + 1280 + 1280 + 960 + 960 + 2560);
  EXPECT_EQ(sumOf([](const LedgerRow &row) { return row.path; }, std::string("layers.1.moe")),
            (1280u + 3 * 3840 + 3 * 1600) / 2);
}

TEST(LedgerTest, JsonCountsAreDecimalStrings) {
  StatusOr<Ledger> ledger = ledgerOf(tinyMoe());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  auto json = llvm::json::parse(ledgerJson(*ledger));
  ASSERT_TRUE(static_cast<bool>(json));
  const llvm::json::Object *root = json->getAsObject();
  EXPECT_EQ(root->getObject("parameters")->getString("total"), "1928");
  const llvm::json::Object *forward = root->getObject("flops")->getObject("forward");
  EXPECT_EQ(forward->getString("ideal"), "28960");
  EXPECT_EQ(forward->getString("full_attention"), "30240");
  EXPECT_EQ(forward->getObject("classes")->getString("contraction"), "28960");
  EXPECT_EQ(root->getObject("flops")->get("training"),
            nullptr); // not differentiated: no figure instead of a guess
}

TEST(LedgerTest, TextFitsAHundredColumns) {
  StatusOr<Ledger> ledger = ledgerOf(tinyMoe());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  std::istringstream lines(ledgerText(*ledger));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_LE(columnsOf(line), 100u) << line;
  EXPECT_LE(count, 48) << "one screen";
  EXPECT_NE(ledgerText(*ledger).find("28,960"), std::string::npos);
}

TEST(LedgerTest, NumbersForPeople) {
  EXPECT_EQ(groupedDigits(0), "0");
  EXPECT_EQ(groupedDigits(999), "999");
  EXPECT_EQ(groupedDigits(61551411200), "61,551,411,200");
  EXPECT_EQ(withUnit(999), "999");
  EXPECT_EQ(withUnit(61551411200), "61.55 G");
  Count power = 1;
  for (int i = 0; i < 100; ++i)
    power *= 2;
  EXPECT_EQ(toDecimal(power), "1267650600228229401496703205376");
}

TEST(LedgerTest, ACountThatDoesNotFitIsAnErrorNotANumber) {
  EXPECT_EQ(Count(-1), Count::overflow());
  EXPECT_EQ(Count(3) - 4, Count::overflow());
  EXPECT_EQ((Count::overflow() - 1) * 2, Count::overflow());
  EXPECT_EQ(Count(7) / 0, Count::overflow());
  EXPECT_EQ(Count::overflow() * 0, Count::overflow());
  EXPECT_EQ(fromDecimal("340282366920938463463374607431768211454") + 1, Count::overflow()); // 2^128 - 2
  EXPECT_EQ(toDecimal(fromDecimal("340282366920938463463374607431768211454")),
            "340282366920938463463374607431768211454");
  EXPECT_EQ(fromDecimal("340282366920938463463374607431768211456"), Count::overflow());
  EXPECT_EQ(fromDecimal("12x"), Count::overflow());
  EXPECT_EQ(fromDecimal(""), Count::overflow());

  const std::string side = "1125899906842624"; // 2^50
  StatusOr<Ledger> ledger = ledgerOf(replaced(R"(
sluice.graph @model(%x: tensor<SxSxf32>, %w: tensor<SxSxf32>) {
  %y = sluice.linear %x, %w : (tensor<SxSxf32>, tensor<SxSxf32>) -> tensor<SxSxf32>
  sluice.return %y ["y"] : tensor<SxSxf32>
}
)",
                                              "S", side));
  ASSERT_FALSE(ledger.ok());
  EXPECT_NE(ledger.status().message().find("linear in @model (contraction) does not fit into 128 bits"),
            std::string::npos)
      << ledger.status();
  // Half the side fits: 2 * 2^147 would not, 2 * 2^123 does.
  ledger = ledgerOf(replaced(R"(
sluice.graph @model(%x: tensor<SxSxf32>, %w: tensor<SxSxf32>) {
  %y = sluice.linear %x, %w : (tensor<SxSxf32>, tensor<SxSxf32>) -> tensor<SxSxf32>
  sluice.return %y ["y"] : tensor<SxSxf32>
}
)",
                             "S", "2199023255552")); // 2^41
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_EQ(toDecimal(ledger->forward().counts.ideal.contraction), "21267647932558653966460912964485513216");
}

TEST(LedgerTest, PaddingBoundHoldsForEverySplit) {
  auto padded = [](int64_t rows, int64_t piece) {
    int64_t rest = rows % piece;
    if (rest == 0)
      return int64_t{0};
    for (int64_t extent : tiles::preparedExtents)
      if (extent >= rest)
        return extent - rest;
    return int64_t{0};
  };
  for (int64_t piece : {tiles::groupedRows, tiles::groupedDepth}) {
    for (int64_t rows = 0; rows <= 300; ++rows) {
      int64_t two = 0, three = 0;
      for (int64_t a = 0; a <= rows; ++a) {
        two = std::max(two, padded(a, piece) + padded(rows - a, piece));
        for (int64_t b = 0; rows <= 200 && a + b <= rows; ++b)
          three = std::max(three, padded(a, piece) + padded(b, piece) + padded(rows - a - b, piece));
      }
      EXPECT_GE(largestPadding(rows, 1, piece), padded(rows, piece)) << rows;
      EXPECT_GE(largestPadding(rows, 2, piece), two) << rows;
      EXPECT_GE(largestPadding(rows, 3, piece), three) << rows;
    }
    // Reached where every group has the worst rest.
    EXPECT_EQ(largestPadding(2, 2, piece), 30u);
  }
  EXPECT_EQ(largestPadding(65 * 4, 4, tiles::groupedRows), 4u * 31);
  EXPECT_EQ(largestPadding(129 * 4, 4, tiles::groupedDepth), 4u * 63);
  EXPECT_EQ(largestPadding(0, 4, tiles::groupedRows), 0u);
}

TEST(LedgerTest, ExecutedCountsBlocksAndPaddedRows) {
  StatusOr<Ledger> ledger = ledgerOf(tinyMoe());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  // Five queries are one block that sees all five keys: the full square. 20 routed rows of 4 experts are
  // padded by 15 * 4 + (20 - 4) * (31 - 15) / (65 - 1) = 64 rows at most, 2 * 3 * 48 FLOP a row and layer.
  EXPECT_EQ(ledger->forward().executed.contraction, 28960u + 2 * 640u + 64u * 2 * 3 * 48 * 2);
  EXPECT_EQ(ledger->forward().executed.add, ledger->forward().counts.ideal.add);
}

TEST(LedgerTest, ExecutedWindowsAreWholeBlocksOfQueries) {
  // Every (query, key) pair that a block of queries computes because one of its queries sees the key.
  for (int64_t sequence : {1, 5, 64, 65, 200})
    for (int64_t window : {0, 1, 4, 63, 64, 130, 500}) {
      Count pairs = 0;
      for (int64_t query = 0; query < sequence; ++query)
        for (int64_t key = 0; key < sequence; ++key) {
          bool computed = false;
          for (int64_t other = 0; other < sequence; ++other)
            computed |= other / tiles::attentionQueries == query / tiles::attentionQueries && key <= other &&
                        (window == 0 || key > other - window);
          pairs += computed;
        }
      EXPECT_EQ(toDecimal(attentionBlockScores(sequence, window)), toDecimal(pairs))
          << sequence << " window " << window;
    }
  StatusOr<Ledger> ledger = ledgerOf(R"(
sluice.graph @model(%q: tensor<3x130x8xf32>, %k: tensor<3x130x4xf32>, %v: tensor<3x130x4xf32>) {
  %out, %logsumexp = sluice.attention %q, %k, %v {causal = true, heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64,
                                                  window = 9 : i64}
      : (tensor<3x130x8xf32>, tensor<3x130x4xf32>, tensor<3x130x4xf32>) -> (tensor<3x130x8xf32>, tensor<3x2x130xf32>)
  sluice.return %out ["out"] : tensor<3x130x8xf32>
}
)");
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  // Three sequences, two heads; two products of four elements a score.
  EXPECT_EQ(toDecimal(ledger->forward().executed.contraction),
            toDecimal(3 * 2 * attentionBlockScores(130, 9) * 2 * (4 + 4)));
}

TEST(LedgerTest, BytesOfEachOp) {
  StatusOr<Ledger> ledger = ledgerOf(tinyMoe());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  auto bytesOf = [&](const std::string &op, const std::string &path) {
    return ledger->sum([&](const LedgerRow &row) { return row.op == op && row.path == path; }).bytes;
  };
  EXPECT_EQ(bytesOf("embedding", ""), 4u * (10 + 80 + 80)); // ids, the rows looked up, the result
  // q and out [10, 8] by [8, 8], k and v to [10, 4].
  EXPECT_EQ(bytesOf("linear", "layers.0.attn"), 4u * (2 * (80 + 64 + 80) + 2 * (80 + 32 + 40)));
  EXPECT_EQ(bytesOf("attention", "layers.0.attn"), 4u * (80 + 40 + 40 + 80 + 40));
  EXPECT_EQ(bytesOf("dispatch", "layers.1.moe"), 4u * (80 + (3 * 20 + 5) + 160));
}

TEST(LedgerTest, EveryUncountedOpIsListedOnce) {
  StatusOr<Ledger> ledger = ledgerOf(R"(
sluice.graph @model(%x: tensor<2xf32>) {
  %y = sluice.repeat "layers" times 2 (%h = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %c = arith.constant 1.0 : f32
    sluice.yield %h : tensor<2xf32>
  }
  %z = arith.addf %y, %y : tensor<2xf32>
  sluice.return %z ["z"] : tensor<2xf32>
}
)");
  ASSERT_FALSE(ledger.ok());
  std::string message(ledger.status().message());
  EXPECT_NE(message.find("arith.addf, 1 time: @model"), std::string::npos) << message;
  EXPECT_NE(message.find("arith.constant, 2 times: layers.0, layers.1"), std::string::npos) << message;
}

TEST(LedgerTest, NamedSizesMustBeBound) {
  StatusOr<Ledger> ledger = ledgerOf(R"(
sluice.graph @model(%x: tensor<?xf32, #sluice.dims<batch>>) {
  %y = sluice.scale %x {factor = 2.0 : f64} : (tensor<?xf32, #sluice.dims<batch>>) -> tensor<?xf32, #sluice.dims<batch>>
  sluice.return %y ["y"] : tensor<?xf32, #sluice.dims<batch>>
}
)");
  ASSERT_FALSE(ledger.ok());
  EXPECT_NE(ledger.status().message().find("bind the names first"), std::string::npos);
}

} // namespace
} // namespace sluice
