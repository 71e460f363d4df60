// dispatch and combine: rows out to the experts and back, adjoints of one another; and the gates' gradient.
#include "dialects/sluice/ops/Place.h"
#include "dialects/sluice/ops/RoutingBuffer.h"

#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

/// Walks from rows back to the op that grouped them, through ops that keep rows apart. Equal types prove
/// nothing: what groups the rows must name the same assignment value.
LogicalResult verifySameAssignment(Operation *op, Value rows, Value routing) {
  llvm::SmallVector<Value> pending{rows};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    Operation *producer = pending.pop_back_val().getDefiningOp();
    if (!producer || !seen.insert(producer).second)
      continue;
    Value other;
    if (auto dispatch = dyn_cast<DispatchOp>(producer))
      other = dispatch.getRouting();
    else if (auto experts = dyn_cast<ExpertsOp>(producer))
      other = experts.getRouting();
    else if (auto linear = dyn_cast<GroupedLinearOp>(producer))
      other = linear.getRouting();
    else if (isa<SwiGluOp, ActivationOp, AddOp, ScaleOp>(producer))
      llvm::append_range(pending, producer->getOperands());
    else if (isa<MultiplyOp, RmsNormOp, SoftmaxOp>(producer))
      pending.push_back(producer->getOperand(0));
    if (other && other != routing) {
      InFlightDiagnostic diagnostic = emitPlacedError(op);
      diagnostic << "rows were grouped by another assignment than the one named here";
      diagnostic.attachNote(producer->getLoc()) << "grouped here";
      return diagnostic;
    }
  }
  return success();
}

/// gates [..., top_k], one row a token.
LogicalResult verifyGates(Operation *op, Value gates, RoutingType routing) {
  return gates ? verifyPerToken(op, gates, routing, routing.getTopK(), "gates") : success();
}

} // namespace

// ----- dispatch
// ------------------------------------------------------------------------------------------------

LogicalResult DispatchOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                           ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,
                                           llvm::SmallVectorImpl<Type> &inferred) {
  auto x = cast<RankedTensorType>(operands[0].getType());
  if (x.getRank() < 2)
    return emitOptionalError(location, "'sluice.dispatch' op needs x [tokens..., d], found ", shapeText(x));
  inferred.push_back(tensorOf({rowsOf(routingTypeOf(operands[1])), dimsOf(x).back()}, x.getElementType()));
  return success();
}

LogicalResult DispatchOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (leadingProduct(getX().getType()) != tokensOf(routing))
    return emitPlacedError(*this) << "x must have one row for each of the assignment's "
                                  << routing.getTokens().getValue() << " tokens, found "
                                  << shapeText(getX().getType());
  return verifyGates(*this, getGates(), routing);
}

OpCounts DispatchOp::count() {
  ClassCounts counts;
  counts.index = static_cast<Count>(routingTypeOf(getRouting()).rows());
  if (getGates())
    counts.multiply = elementsOf(getRows());
  return OpCounts::same(counts);
}

RecomputeCost DispatchOp::recomputeCost() {
  return getGates() ? RecomputeCost::Cheap : RecomputeCost::Free;
}

LogicalResult DispatchOp::evaluate(Evaluation &evaluation) {
  const HostTensor &x = evaluation.operand(0);
  RoutingView routing(evaluation.operand(1), routingTypeOf(getRouting()));
  HostTensor &rows = evaluation.result(0);
  const int64_t width = rows.columns();
  for (int64_t row = 0; row < routing.rows; ++row) {
    double gate = getGates() ? evaluation.operand(2)[routing.slotOfRow(row)] : 1.0;
    for (int64_t i = 0; i < width; ++i)
      rows[row * width + i] = gate * x[routing.tokenOfRow(row) * width + i];
  }
  return success();
}

LogicalResult DispatchOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value drows = adjoint.cotangent(0);
  if (!drows)
    return success();
  if (adjoint.needed(0)) {
    Value dx = CombineOp::create(adjoint.builder, adjoint.loc, drows, getRouting(), getGates());
    adjoint.setOperandCotangent(0, reshapedLike(adjoint.builder, adjoint.loc, dx, getX()));
  }
  if (getGates() && adjoint.needed(2)) {
    Value dgates = CombineGateGradientOp::create(adjoint.builder, adjoint.loc, getX(), drows, getRouting());
    adjoint.setOperandCotangent(2, reshapedLike(adjoint.builder, adjoint.loc, dgates, getGates()));
  }
  return success();
}

std::string DispatchOp::commandKind() {
  return "dispatch";
}
void DispatchOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
}
LogicalResult DispatchOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- combine
// -------------------------------------------------------------------------------------------------

LogicalResult CombineOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          ValueRange operands, DictionaryAttr, OpaqueProperties, RegionRange,
                                          llvm::SmallVectorImpl<Type> &inferred) {
  auto rows = cast<RankedTensorType>(operands[0].getType());
  if (rows.getRank() != 2)
    return emitOptionalError(location, "'sluice.combine' op needs rows [rows, d], found ", shapeText(rows));
  Dim width = dimsOf(rows).back();
  // Gates know the tokens' dimensions ([batch, seq]); without them tokens are one axis.
  if (operands.size() > 2)
    inferred.push_back(withLastSize(operands[2].getType(), width));
  else
    inferred.push_back(tensorOf({tokensOf(routingTypeOf(operands[1])), width}, rows.getElementType()));
  return success();
}

LogicalResult CombineOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (failed(verifyRows(*this, getRows(), routing, "rows")) ||
      failed(verifyGates(*this, getGates(), routing)))
    return failure();
  return verifySameAssignment(*this, getRows(), getRouting());
}

OpCounts CombineOp::count() {
  auto topK = static_cast<Count>(routingTypeOf(getRouting()).getTopK());
  ClassCounts counts;
  counts.add = elementsOf(getY()) * (topK - 1);
  if (getGates())
    counts.multiply = elementsOf(getY()) * topK;
  counts.index = static_cast<Count>(routingTypeOf(getRouting()).rows());
  return OpCounts::same(counts);
}

RecomputeCost CombineOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult CombineOp::evaluate(Evaluation &evaluation) {
  const HostTensor &rows = evaluation.operand(0);
  RoutingView routing(evaluation.operand(1), routingTypeOf(getRouting()));
  HostTensor &y = evaluation.result(0);
  const int64_t width = rows.columns();
  for (int64_t slot = 0; slot < routing.rows; ++slot) {
    double gate = getGates() ? evaluation.operand(2)[slot] : 1.0;
    for (int64_t i = 0; i < width; ++i)
      y[slot / routing.topK * width + i] += gate * rows[routing.rowOfSlot(slot) * width + i];
  }
  return success();
}

LogicalResult CombineOp::buildAdjoint(AdjointBuilder &adjoint) {
  Value dy = adjoint.cotangent(0);
  if (!dy)
    return success();
  if (adjoint.needed(0))
    adjoint.setOperandCotangent(
        0, DispatchOp::create(adjoint.builder, adjoint.loc, dy, getRouting(), getGates()));
  if (getGates() && adjoint.needed(2)) {
    Value dgates = CombineGateGradientOp::create(adjoint.builder, adjoint.loc, dy, getRows(), getRouting());
    adjoint.setOperandCotangent(2, reshapedLike(adjoint.builder, adjoint.loc, dgates, getGates()));
  }
  return success();
}

std::string CombineOp::commandKind() {
  return "combine";
}
void CombineOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
}
LogicalResult CombineOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

// ----- gates' gradient
// -----------------------------------------------------------------------------------------

LogicalResult CombineGateGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                      ValueRange operands, DictionaryAttr, OpaqueProperties,
                                                      RegionRange, llvm::SmallVectorImpl<Type> &inferred) {
  if (cast<RankedTensorType>(operands[0].getType()).getRank() < 2)
    return emitOptionalError(location, "'sluice.combine_gate_gradient' op needs dy [tokens..., d], found ",
                             shapeText(operands[0].getType()));
  inferred.push_back(withLastSize(operands[0].getType(), Dim(routingTypeOf(operands[2]).getTopK())));
  return success();
}

LogicalResult CombineGateGradientOp::verify() {
  RoutingType routing = routingTypeOf(getRouting());
  if (leadingProduct(getDy().getType()) != tokensOf(routing))
    return emitPlacedError(*this) << "dy must have one row for each of the assignment's "
                                  << routing.getTokens().getValue() << " tokens, found "
                                  << shapeText(getDy().getType());
  if (failed(verifyRows(*this, getRows(), routing, "rows")))
    return failure();
  llvm::SmallVector<Dim> dy = dimsOf(getDy().getType());
  if (dy.empty() || dy.back() != dimsOf(getRows().getType()).back())
    return emitPlacedError(*this) << "dy " << shapeText(getDy().getType()) << " and rows "
                                  << shapeText(getRows().getType()) << " disagree in the last size";
  return success();
}

OpCounts CombineGateGradientOp::count() {
  auto slots = static_cast<Count>(routingTypeOf(getRouting()).rows());
  Count width = lastSizeOf(getDy());
  ClassCounts counts;
  counts.multiply = slots * width;
  counts.add = slots * (width - 1);
  counts.index = slots;
  return OpCounts::same(counts);
}

RecomputeCost CombineGateGradientOp::recomputeCost() {
  return RecomputeCost::Cheap;
}

LogicalResult CombineGateGradientOp::evaluate(Evaluation &evaluation) {
  const HostTensor &dy = evaluation.operand(0), &rows = evaluation.operand(1);
  RoutingView routing(evaluation.operand(2), routingTypeOf(getRouting()));
  HostTensor &dgates = evaluation.result(0);
  const int64_t width = rows.columns();
  for (int64_t slot = 0; slot < routing.rows; ++slot)
    for (int64_t i = 0; i < width; ++i)
      dgates[slot] += dy[slot / routing.topK * width + i] * rows[routing.rowOfSlot(slot) * width + i];
  return success();
}

std::string CombineGateGradientOp::commandKind() {
  return "combine_gate_gradient";
}
void CombineGateGradientOp::commandAttributes(NamedAttrList &attributes) {
  appendInteger(attributes, *this, "top_k", routingTypeOf(getRouting()).getTopK());
}
LogicalResult CombineGateGradientOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
