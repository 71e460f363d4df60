// Every grouping of a ledger has the same total, a module is its own rows and its children, and figures per
// unit.
#include "dialects/ledger/LedgerFormat.h"
#include "dialects/ledger/LedgerReport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace sluice {
namespace {

/// A ledger with distinct numbers in every class, reading, direction, layer, role and module.
Ledger sample() {
  Ledger ledger;
  ledger.trainingGraph = "accumulate";
  ledger.hasBackward = true;
  ledger.batch = 2, ledger.sequence = 5, ledger.stepTokens = 40;
  uint64_t next = 1;
  auto classes = [&] {
    ClassCounts counts;
    for (const CountClass &countClass : countClasses)
      counts.*countClass.member = next++ * 1000003;
    return counts;
  };
  for (const char *graph : {"accumulate", "apply", "eval"})
    for (const char *path :
         {"", "embed", "layers.0.attn", "layers.0.moe.router", "layers.1.attn", "layers.1.moe"})
      for (const char *direction : {"forward", "backward", "recompute"})
        for (const char *op : {"linear", "map"}) {
          LedgerRow row;
          row.graph = graph, row.path = path, row.direction = direction, row.op = op;
          row.layer = std::string(path).find("layers.") == 0 ? path[7] - '0' : -1;
          row.role = std::string(path).find("attn") != std::string::npos ? "attention" : "expert";
          row.executions = static_cast<int64_t>(next++);
          row.counts = {classes(), classes(), classes()};
          row.fullAttention = classes();
          row.executed = classes();
          row.bytes = next++, row.executedBytes = next++;
          ledger.rows.push_back(row);
        }
  ledger.parameters.byPath = {{"", 3}, {"layers.0.attn", 50}, {"layers.1.attn", 70}};
  ledger.parameters.activeByPath = {{"", 2}, {"layers.0.attn", 40}, {"layers.1.attn", 60}};
  return ledger;
}

void expectSame(const LedgerEntry &a, const LedgerEntry &b) {
  EXPECT_EQ(a.executions, b.executions);
  EXPECT_TRUE(a.forward == b.forward);
  EXPECT_TRUE(a.backward == b.backward);
  EXPECT_TRUE(a.recompute == b.recompute);
}

TEST(LedgerViewTest, EveryGroupingHasTheSameTotal) {
  const Ledger ledger = sample();
  const LedgerEntry whole = moduleTree(ledger, false).total;
  EXPECT_EQ(whole.forward.counts.ideal.contraction, ledger.forward().counts.ideal.contraction);
  EXPECT_EQ(whole.backward.counts.ideal.add, ledger.backward().counts.ideal.add);
  EXPECT_EQ(whole.recompute.counts.ideal.divide, ledger.recompute().counts.ideal.divide);
  EXPECT_EQ(whole.forward.executed.contraction + whole.backward.executed.contraction +
                whole.recompute.executed.contraction,
            ledger.training().executed.contraction);
  EXPECT_EQ(whole.parameters, 123u);
  EXPECT_EQ(whole.active, 102u);
  for (LedgerKey key : {LedgerKey::Op, LedgerKey::Layer, LedgerKey::Module, LedgerKey::Role}) {
    LedgerEntry total;
    for (const LedgerEntry &entry : ledgerTable(ledger, key))
      total += entry;
    expectSame(total, whole);
    if (key == LedgerKey::Module) {
      EXPECT_EQ(total.parameters, whole.parameters);
    }
  }
}

void checkNode(const ModuleNode &node) {
  LedgerEntry sum = node.own;
  for (const ModuleNode &child : node.children) {
    checkNode(child);
    sum += child.total;
  }
  expectSame(node.total, sum);
  EXPECT_EQ(node.total.parameters, sum.parameters);
}

TEST(LedgerViewTest, AModuleIsItsOwnRowsAndItsChildren) {
  const Ledger ledger = sample();
  const ModuleNode apart = moduleTree(ledger, false), merged = moduleTree(ledger, true);
  checkNode(apart);
  checkNode(merged);
  expectSame(apart.total, merged.total);
  ASSERT_EQ(merged.children.size(), 2u); // embed, layers
  const ModuleNode &layers = merged.children[1].children.at(0);
  EXPECT_EQ(layers.name, "*");
  EXPECT_EQ(layers.instances, 2u);
  EXPECT_EQ(layers.total.parameters, 120u);
  ASSERT_EQ(layers.children.size(), 2u); // attn, moe
  EXPECT_EQ(layers.children[1].children.at(0).instances, 1u) << "the router of layer 0";
}

TEST(LedgerViewTest, ScalesRoundQuotientsAndKeepProductsExact) {
  LedgerScale third{"token", 1, 3, 1, 7};
  EXPECT_EQ(third.training(10), 3u);
  EXPECT_EQ(third.training(11), 4u);
  EXPECT_EQ(third.optimizer(10), 1u);
  LedgerScale run{"run", Count(2000000000000), 4096, 5, 1};
  EXPECT_EQ(toDecimal(run.training(Count(905832233435136))),
            "442300895232000000000000"); // exact: 905832233435136 / 4096 is whole
  EXPECT_EQ(run.optimizer(10), 50u);
  run.multiply = fromDecimal("340282366920938463463374607431768211454");
  EXPECT_TRUE(run.training(2).isOverflow());
}

TEST(LedgerViewTest, RooflineIsTheSlowerOfWorkAndBytes) {
  LedgerEntry entry;
  entry.forward.executed.contraction = 600;
  entry.backward.executed.add = 300;
  entry.recompute.executed.multiply = 100;
  entry.forward.executedBytes = 40;
  EXPECT_DOUBLE_EQ(rooflineSeconds(entry, {100, 10}), 10.0);
  EXPECT_DOUBLE_EQ(rooflineSeconds(entry, {100, 2}), 20.0);
}

TEST(LedgerViewTest, ReportsFitAHundredColumns) {
  Ledger ledger = sample();
  for (LedgerRow &row : ledger.rows)
    row.counts.ideal = row.counts.ideal.times(100000000000000);
  ReportOptions options;
  options.machine = MachineRates{5e11, 4e10};
  std::vector<std::string> texts = {ledgerText(ledger),
                                    compareText("a.yaml", ledger, "folder/b.yaml", sample(), {}, {})};
  for (LedgerKey key : {LedgerKey::Op, LedgerKey::Layer, LedgerKey::Module, LedgerKey::Role}) {
    options.by = key;
    texts.push_back(ledgerText(ledger, options));
  }
  for (const std::string &text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(columnsOf(line), 100u) << line;
  }
}

TEST(LedgerViewTest, CsvHasOneLineARow) {
  const Ledger ledger = sample();
  const std::string csv = ledgerCsv(ledger, {});
  EXPECT_EQ(static_cast<size_t>(std::count(csv.begin(), csv.end(), '\n')), ledger.rows.size() + 1);
  std::istringstream lines(csv);
  std::string head, line;
  std::getline(lines, head);
  while (std::getline(lines, line))
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(head.begin(), head.end(), ','));
}

TEST(LedgerViewTest, NumbersOfReports) {
  EXPECT_EQ(shortCount(12617781248), "12.62B");
  EXPECT_EQ(shortUnit(61551411200), "61.55G");
  EXPECT_EQ(bothForms(12617781248, "12.62B", 25), "    12,617,781,248 12.62B");
  EXPECT_EQ(bothForms(12617781248, "12.62B", 16), "  12,617,781,248");
  EXPECT_EQ(bothForms(12617781248, "12.62B", 10), "    12.62B");
  EXPECT_EQ(percent(1, 3), "33.3%");
  EXPECT_EQ(percent(1, 0), "-");
  EXPECT_EQ(columnsOf(percentBar(1, 3, 10)), 10u);
  EXPECT_EQ(percentBar(1, 1, 2), "██");
  EXPECT_EQ(secondsText(0.00123), "1.23 ms");
}

} // namespace
} // namespace sluice
