// update_mask: drop, then grow; the moving masks of SET, RigL and gradual pruning.
#include "dialects/sluice/ops/MaskRules.h"
#include "runtime/support/Philox.h"
#include "runtime/support/SoftDrop.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace mlir;

namespace sluice {
namespace {

constexpr int64_t billion = 1000000000;

/// An ordering key and a unit; the smallest are taken first. NaN as a key comes last.
using Candidate = std::pair<double, int64_t>;

double orderable(double key) {
  return std::isnan(key) ? INFINITY : key;
}

/// ceil(count amount / 10^9), at most count.
int64_t portion(int64_t count, int64_t amount) {
  return static_cast<int64_t>(std::min<__int128>(count, (__int128(count) * amount + billion - 1) / billion));
}

/// One matrix of the update; `first` is its first index in the whole tensor. Operands and results are whole.
class MatrixUpdate {
public:
  MatrixUpdate(UpdateMaskOp op, const std::vector<HostTensor> &operands, std::vector<HostTensor> &results,
               int64_t first)
      : op(op), operands(operands), results(results), mask(results[0]), type(maskTypeOf(op.getMask())),
        units(type), first(first), last(first + type.matrixSize()), amount(operands[6][0]) {}

  void run() {
    for (int64_t i = first; i < last; ++i)
      mask[i] = operands[0][i];
    if (op.getGrow() == "none")
      prune();
    else
      drop(), grow();
    const HostTensor *age = op.getAge() ? &operands[7] : nullptr;
    for (int64_t i = first; i < last; ++i) {
      const bool isNew = added.contains(i);
      for (unsigned k = 1; k <= 3; ++k)
        results[k][i] = mask[i] == 0 || isNew ? 0 : operands[k][i];
      if (age)
        results[4][i] = mask[i] == 0 ? 0 : (isNew ? op.getRestart().convertToDouble() : (*age)[i]);
    }
  }

private:
  void take(std::vector<Candidate> candidates, int64_t count, double value) {
    std::sort(candidates.begin(), candidates.end());
    count = std::min(count, static_cast<int64_t>(candidates.size()));
    for (int64_t k = 0; k < count; ++k)
      for (int64_t weight : units.weightsOf(candidates[static_cast<size_t>(k)].second)) {
        mask[weight] = value;
        if (value != 0)
          added.insert(weight);
      }
  }

  /// |x| of a weight; of a block the sum of squares, which orders as the norm does.
  double magnitude(const HostTensor &x, int64_t unit) const {
    double sum = 0;
    for (int64_t weight : units.weightsOf(unit))
      sum += x[weight] * x[weight];
    return units.rows * units.columns == 1 ? std::fabs(x[unit]) : sum;
  }

  PhiloxStream stream(llvm::StringRef suffix) {
    const auto seed = static_cast<uint64_t>(static_cast<int64_t>(operands[4][0]));
    const auto step = static_cast<uint64_t>(static_cast<int64_t>(operands[5][0]));
    return PhiloxStream(seed, streamKey((op.getStream() + suffix).str()), step);
  }

  /// Growth at random takes the smallest draws; growth by gradient the largest, then those of none by their
  /// draws.
  double growKey(const HostTensor *gradient, int64_t unit, uint32_t draw) const {
    if (!gradient)
      return draw;
    const double size = magnitude(*gradient, unit);
    return size == 0 ? double(draw >> 2) : orderable(-size);
  }

  /// Units of the group at `begin` that are kept, or that are not.
  std::vector<int64_t> unitsOf(int64_t begin, bool kept) const {
    std::vector<int64_t> found;
    for (int64_t unit : units.ofGroup(begin))
      if ((mask[unit] != 0) == kept)
        found.push_back(unit);
    return found;
  }

  void drop() {
    const HostTensor &weight = operands[1];
    const PhiloxStream draws = stream(".drop");
    std::vector<Candidate> below, others;
    for (int64_t begin = first; begin < last; begin += units.group)
      for (int64_t unit : unitsOf(begin, true)) {
        const double size = magnitude(weight, unit);
        if (op.getDrop() == "soft") {
          const double square = units.rows * units.columns == 1 ? size * size : size;
          others.emplace_back(softDropKey(square, draws.bits(static_cast<uint64_t>(unit))), unit);
        } else {
          (op.getDrop() == "signed" && weight[unit] < 0 ? below : others).emplace_back(orderable(size), unit);
        }
      }
    for (std::vector<Candidate> *candidates : {&below, &others})
      take(*candidates, portion(static_cast<int64_t>(candidates->size()), amount), 0);
  }

  void prune() {
    const int64_t groups = type.matrixSize() / units.group, block = units.rows * units.columns,
                  target = static_cast<int64_t>(op.getTarget()) / block / groups;
    const auto stay = static_cast<int64_t>(units.keep - __int128(units.keep - target) * amount / billion);
    for (int64_t begin = first; begin < last; begin += units.group) {
      std::vector<Candidate> candidates;
      for (int64_t unit : unitsOf(begin, true))
        candidates.emplace_back(orderable(magnitude(operands[1], unit)), unit);
      take(candidates, std::max<int64_t>(static_cast<int64_t>(candidates.size()) - stay, 0), 0);
    }
  }

  void grow() {
    const PhiloxStream draws = stream("");
    const HostTensor *gradient = op.getDenseGradient() ? &operands[op.getAge() ? 8 : 7] : nullptr;
    for (int64_t begin = first; begin < last; begin += units.group) {
      std::vector<Candidate> free;
      for (int64_t unit : unitsOf(begin, false))
        free.emplace_back(growKey(gradient, unit, draws.bits(static_cast<uint64_t>(unit))), unit);
      take(free, std::max<int64_t>(units.keep - static_cast<int64_t>(unitsOf(begin, true).size()), 0), 1);
    }
  }

  UpdateMaskOp op;
  const std::vector<HostTensor> &operands;
  std::vector<HostTensor> &results;
  HostTensor &mask;
  MaskType type;
  MaskUnits units;
  int64_t first, last, amount;
  std::set<int64_t> added;
};

} // namespace

LogicalResult UpdateMaskOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                             DictionaryAttr attributes, OpaqueProperties properties,
                                             RegionRange regions, llvm::SmallVectorImpl<Type> &types) {
  Adaptor op(operands, attributes, properties, regions);
  for (Value value : {op.getMask(), op.getParameter(), op.getExpAvg(), op.getExpAvgSq(), op.getAge()})
    if (value)
      types.push_back(value.getType());
  return success();
}

LogicalResult UpdateMaskOp::verify() {
  llvm::SmallVector<Dim> shape = dimsOf(getParameter().getType());
  using Named = std::pair<llvm::StringRef, Value>;
  for (auto [name, value] :
       {Named("exp_avg", getExpAvg()), Named("exp_avg_sq", getExpAvgSq()), Named("age", getAge())})
    if (value && failed(requireShape(*this, name, value, shape, "the parameter's shape")))
      return failure();
  if (getDenseGradient() && failed(requireMask(*this, getMask(), getDenseGradient(), "dense_gradient")))
    return failure();
  for (auto [name, value] :
       {Named("seed", getSeed()), Named("step", getStep()), Named("amount", getAmount())})
    if (failed(requireInteger(*this, name, value)))
      return failure();
  if (failed(requireMaskOrKept(*this, getMask(), getParameter(), "parameter")))
    return failure();
  MaskType type = maskTypeOf(getMask());
  if (isKeptForm(getParameter(), getMask()) && getGrow() == "none")
    return ruleError(*this) << "pruning changes the number of kept weights; its parameter must be whole";
  const MaskUnits units(type);
  if (!llvm::is_contained({"magnitude", "signed", "soft"}, getDrop()))
    return ruleError(*this) << "drop must be magnitude, signed or soft, found '" << getDrop() << "'";
  if (getDrop() == "signed" && units.rows * units.columns > 1)
    return ruleError(*this) << "a block has no sign, found drop signed and the pattern " << type.getPattern();
  if (getDrop() != "magnitude" && getGrow() == "none")
    return ruleError(*this) << "without growth drop must be magnitude, found '" << getDrop() << "'";
  if (!llvm::is_contained({"random", "gradient", "none"}, getGrow()))
    return ruleError(*this) << "grow must be random, gradient or none, found '" << getGrow() << "'";
  if ((getGrow() == "gradient") != static_cast<bool>(getDenseGradient()))
    return ruleError(*this) << "growth by gradient needs dense_gradient, and no other growth takes it";
  const auto target = static_cast<int64_t>(getTarget());
  if (target < 1 || target > type.getKept() || (getGrow() != "none" && target != type.getKept()))
    return ruleError(*this) << "target must be the mask's kept weights or, with grow none, 1 to that number ("
                            << type.getKept() << "), found " << target;
  if (target % (units.rows * units.columns * (type.matrixSize() / units.group)) != 0)
    return ruleError(*this) << "target must be whole units of the pattern " << type.getPattern() << ", found "
                            << target;
  if (getRestart().convertToDouble() < 0)
    return ruleError(*this) << "restart must not be negative, found " << getRestart().convertToDouble();
  return success();
}

OpCounts UpdateMaskOp::count() {
  // Every weight is looked at for the drop and, where masks grow, for the growth; and compared with the last
  // key that is taken. A random key is integer work.
  MaskType type = maskTypeOf(getMask());
  const Count weights = Count(type.matrixSize()) * type.matrices();
  ClassCounts counts;
  const int passes = getGrow() == "none" ? 1 : 2;
  counts.index = passes * weights;
  counts.compare = passes * weights;
  return OpCounts::same(counts);
}

RecomputeCost UpdateMaskOp::recomputeCost() {
  return RecomputeCost::Never;
}

LogicalResult UpdateMaskOp::evaluate(Evaluation &evaluation) {
  MaskType type = maskTypeOf(getMask());
  const HostTensor &mask = evaluation.operand(0);
  std::vector<HostTensor> operands, results;
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    const bool scalar = i >= 4 && i <= 6; // seed, step, amount
    operands.push_back(scalar ? evaluation.operand(i) : wholeOf(evaluation.operand(i), mask));
  }
  for (unsigned i = 0; i < getNumResults(); ++i)
    results.emplace_back(mask.shape);
  for (int64_t matrix = 0; matrix < type.matrices(); ++matrix)
    MatrixUpdate(*this, operands, results, matrix * type.matrixSize()).run();
  for (unsigned i = 0; i < getNumResults(); ++i) {
    HostTensor &result = evaluation.result(i);
    result = result.shape == mask.shape ? results[i] : keptOf(results[i], results[0], result.shape);
  }
  return success();
}

std::string UpdateMaskOp::commandKind() {
  return "update_mask";
}
void UpdateMaskOp::commandAttributes(NamedAttrList &attributes) {
  MLIRContext *context = getContext();
  setText(attributes, context, "stream", getStream());
  setText(attributes, context, "drop", getDrop());
  setText(attributes, context, "grow", getGrow());
  setInteger(attributes, context, "kept", maskTypeOf(getMask()).getKept());
  setText(attributes, context, "pattern", maskTypeOf(getMask()).getPattern().getValue());
  setText(attributes, context, "shape", commaText(maskTypeOf(getMask()).getShape()));
  setInteger(attributes, context, "target", static_cast<int64_t>(getTarget()));
  setInteger(attributes, context, "has_age", getAge() ? 1 : 0);
  setNumber(attributes, context, "restart", getRestart().convertToDouble());
  if (isKeptForm(getParameter(), getMask()))
    setInteger(attributes, context, "kept_only", 1);
}
LogicalResult UpdateMaskOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
