#include "dialects/ledger/Executed.h"

#include "dialects/sluice/Sluice.h"
#include "dialects/sluice/ops/MaskRules.h"
#include "runtime/abi/Tiles.h"

#include <algorithm>
#include <vector>

using namespace mlir;

namespace sluice {
namespace {

RoutingType routingOf(Operation *op) {
  if (auto product = dyn_cast<GroupedLinearOp>(op))
    return cast<RoutingType>(product.getRouting().getType());
  return cast<RoutingType>(cast<GroupedWeightGradientOp>(op).getRouting().getType());
}

/// The mask of an op's product, or null.
MaskType maskOf(Operation *op) {
  if (isa<LinearOp, GroupedLinearOp, GroupedWeightGradientOp, MaskedInputGradientOp, MaskedWeightGradientOp>(
          op))
    for (Type type : op->getOperandTypes())
      if (auto mask = dyn_cast<MaskType>(type))
        return mask;
  return {};
}

} // namespace

Count attentionBlockScores(int64_t sequence, int64_t window) {
  Count computed = 0;
  for (int64_t begin = 0; begin < sequence; begin += tiles::attentionQueries) {
    const int64_t end = std::min(begin + tiles::attentionQueries, sequence);
    const int64_t first = window > 0 ? std::max<int64_t>(0, begin - window + 1) : 0;
    computed += Count(end - begin) * (end - first);
  }
  return computed;
}

Count largestPadding(Count rows, Count experts, int64_t piece) {
  // The worst rest of an interval of extents is one row more than the smaller extent. Padding as a function
  // of a group's rows lies below the concave hull of these points, so the sum is largest where all groups are
  // equal.
  struct Point {
    int64_t rows, padding;
  };
  std::vector<Point> hull{{0, 0}};
  int64_t smaller = 0;
  for (int64_t extent : tiles::preparedExtents) {
    if (extent > piece)
      break;
    const Point point{smaller + 1, extent - smaller - 1};
    smaller = extent;
    if (point.padding <= hull.back().padding)
      continue;
    auto isBelow = [&] { // the last point below the line from the one before it to the new one
      const Point &a = hull[hull.size() - 2], &b = hull.back();
      return (b.padding - a.padding) * (point.rows - a.rows) <=
             (point.padding - a.padding) * (b.rows - a.rows);
    };
    while (hull.size() > 1 && isBelow())
      hull.pop_back();
    hull.push_back(point);
  }
  for (size_t i = 1; i < hull.size(); ++i)
    if (rows <= experts * hull[i].rows) {
      const Point &low = hull[i - 1], &high = hull[i];
      return experts * low.padding +
             (rows - experts * low.rows) * (high.padding - low.padding) / (high.rows - low.rows);
    }
  return experts * hull.back().padding;
}

Count paddingOfProduct(Count contraction, Count rows, Count experts, int64_t piece) {
  return rows == 0 ? Count(0) : contraction / rows * largestPadding(rows, experts, piece);
}

/// The work of an op whose ideal count is that of whole tensors, on the elements that its operands hold.
static ClassCounts ofElements(Operation *op, ClassCounts executed) {
  Count elements = 0;
  if (auto norm = dyn_cast<GlobalNormOp>(op)) {
    for (Value gradient : norm.getGradients())
      elements += elementCount(gradient);
    executed.multiply = elements;
  } else {
    elements = elementCount(op->getOperands().back());
  }
  executed.add = elements;
  return executed;
}

ClassCounts executedCounts(Operation *op, const OpCounts &counts) {
  ClassCounts executed = counts.ideal;
  // Zeros are multiplied too unless the product's kernel skips them.
  if (MaskType mask = maskOf(op); mask && !skipsZeros(op, mask))
    executed.contraction = executed.contraction / mask.getKept() * mask.matrixSize();
  else if (auto update = dyn_cast<MaskedAdamWOp>(op))
    executed = isKeptForm(update.getParameter(), update.getMask()) ? counts.ideal : counts.dense;
  else if (op->hasAttr(wholeElementsAttributeName))
    executed = ofElements(op, executed);
  if (isa<GroupedLinearOp, GroupedWeightGradientOp>(op)) {
    RoutingType routing = routingOf(op);
    const Count rows = Count(routing.tokenCount()) * routing.getTopK();
    const int64_t piece = isa<GroupedLinearOp>(op) ? tiles::groupedRows : tiles::groupedDepth;
    executed.contraction += paddingOfProduct(executed.contraction, rows, routing.getExperts(), piece);
  } else if (isa<AttentionOp, AttentionGradientOp>(op) &&
             counts.dense.contraction != counts.ideal.contraction) { // causal
    const int64_t sequence = cast<RankedTensorType>(op->getOperand(0).getType()).getDimSize(1);
    auto window = op->getAttrOfType<IntegerAttr>("window");
    if (sequence > 0)
      executed.contraction = counts.dense.contraction / (Count(sequence) * sequence) *
                             attentionBlockScores(sequence, window ? window.getInt() : 0);
  }
  return executed;
}

} // namespace sluice
