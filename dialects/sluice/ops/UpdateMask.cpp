// update_mask: drop, then grow; the moving masks of SET, RigL and gradual pruning.
#include "dialects/sluice/ops/MaskRules.h"
#include "runtime/support/Philox.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace sluice {
namespace {

constexpr int64_t billion = 1000000000;

/// An ordering key and an index; the smallest are taken first. NaN as a key comes last.
using Candidate = std::pair<double, int64_t>;

double orderable(double key) {
  return std::isnan(key) ? INFINITY : key;
}

/// ceil(count amount / 10^9), at most count.
int64_t portion(int64_t count, int64_t amount) {
  return static_cast<int64_t>(std::min<__int128>(count, (__int128(count) * amount + billion - 1) / billion));
}

/// One matrix of the update; `first` is its first index in the whole tensor.
class MatrixUpdate {
public:
  MatrixUpdate(UpdateMaskOp op, Evaluation &evaluation, int64_t first)
      : op(op), evaluation(evaluation), mask(evaluation.result(0)), type(maskTypeOf(op.getMask())),
        first(first), last(first + type.matrixSize()), amount(evaluation.operand(6)[0]) {}

  void run() {
    for (int64_t i = first; i < last; ++i)
      mask[i] = evaluation.operand(0)[i];
    drop();
    if (op.getGrow() != "none")
      grow();
    const HostTensor *age = op.getAge() ? &evaluation.operand(7) : nullptr;
    for (int64_t i = first; i < last; ++i) {
      const bool isNew = std::binary_search(added.begin(), added.end(), i);
      for (unsigned k = 1; k <= 3; ++k)
        evaluation.result(k)[i] = mask[i] == 0 || isNew ? 0 : evaluation.operand(k)[i];
      if (age)
        evaluation.result(4)[i] = mask[i] == 0 ? 0 : (isNew ? op.getRestart().convertToDouble() : (*age)[i]);
    }
  }

private:
  void take(std::vector<Candidate> candidates, int64_t count, double value, std::vector<int64_t> *taken) {
    std::sort(candidates.begin(), candidates.end());
    count = std::min(count, static_cast<int64_t>(candidates.size()));
    for (int64_t k = 0; k < count; ++k) {
      const int64_t index = candidates[static_cast<size_t>(k)].second;
      mask[index] = value;
      if (taken)
        taken->push_back(index);
    }
  }

  void drop() {
    const HostTensor &weight = evaluation.operand(1);
    std::vector<Candidate> all, below, others;
    for (int64_t i = first; i < last; ++i)
      if (mask[i] != 0) {
        const Candidate candidate(orderable(std::fabs(weight[i])), i);
        all.push_back(candidate);
        (weight[i] < 0 ? below : others).push_back(candidate);
      }
    const auto kept = static_cast<int64_t>(all.size());
    if (op.getGrow() == "none") {
      const int64_t most = type.getKept(), target = static_cast<int64_t>(op.getTarget());
      const auto stay = static_cast<int64_t>(most - __int128(most - target) * amount / billion);
      take(all, std::max<int64_t>(kept - stay, 0), 0, nullptr);
    } else if (op.getDrop() == "magnitude") {
      take(all, portion(kept, amount), 0, nullptr);
    } else {
      take(below, portion(static_cast<int64_t>(below.size()), amount), 0, nullptr);
      take(others, portion(static_cast<int64_t>(others.size()), amount), 0, nullptr);
    }
  }

  void grow() {
    const auto seed = static_cast<uint64_t>(static_cast<int64_t>(evaluation.operand(4)[0]));
    const auto step = static_cast<uint64_t>(static_cast<int64_t>(evaluation.operand(5)[0]));
    const PhiloxStream stream(seed, streamKey(std::string_view(op.getStream().data(), op.getStream().size())),
                              step);
    const HostTensor *gradient = op.getDenseGradient() ? &evaluation.operand(op.getAge() ? 8 : 7) : nullptr;
    std::vector<Candidate> free;
    for (int64_t i = first; i < last; ++i)
      if (mask[i] == 0)
        free.emplace_back(gradient ? orderable(-std::fabs((*gradient)[i]))
                                   : double(stream.bits(static_cast<uint64_t>(i))),
                          i);
    const int64_t kept = type.matrixSize() - static_cast<int64_t>(free.size());
    take(free, type.getKept() - kept, 1, &added);
    std::sort(added.begin(), added.end());
  }

  UpdateMaskOp op;
  Evaluation &evaluation;
  HostTensor &mask;
  MaskType type;
  int64_t first, last, amount;
  std::vector<int64_t> added;
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
  for (auto [name, value] : {Named("exp_avg", getExpAvg()), Named("exp_avg_sq", getExpAvgSq()),
                             Named("age", getAge()), Named("dense_gradient", getDenseGradient())})
    if (value && failed(requireShape(*this, name, value, shape, "the parameter's shape")))
      return failure();
  for (auto [name, value] :
       {Named("seed", getSeed()), Named("step", getStep()), Named("amount", getAmount())})
    if (failed(requireInteger(*this, name, value)))
      return failure();
  if (failed(requireMask(*this, getMask(), getParameter(), "parameter")))
    return failure();
  MaskType type = maskTypeOf(getMask());
  if (type.getPattern().getValue() != "unstructured")
    return ruleError(*this) << "only unstructured masks move, found the pattern " << type.getPattern();
  if (!llvm::is_contained({"magnitude", "signed"}, getDrop()))
    return ruleError(*this) << "drop must be magnitude or signed, found '" << getDrop() << "'";
  if (!llvm::is_contained({"random", "gradient", "none"}, getGrow()))
    return ruleError(*this) << "grow must be random, gradient or none, found '" << getGrow() << "'";
  if ((getGrow() == "gradient") != static_cast<bool>(getDenseGradient()))
    return ruleError(*this) << "growth by gradient needs dense_gradient, and no other growth takes it";
  const auto target = static_cast<int64_t>(getTarget());
  if (target < 1 || target > type.getKept() || (getGrow() != "none" && target != type.getKept()))
    return ruleError(*this) << "target must be the mask's kept weights or, with grow none, 1 to that number ("
                            << type.getKept() << "), found " << target;
  if (getRestart().convertToDouble() < 0)
    return ruleError(*this) << "restart must not be negative, found " << getRestart().convertToDouble();
  return success();
}

OpCounts UpdateMaskOp::count() {
  // Every weight is looked at for the drop and, where masks grow, for the growth; and compared with the last
  // key that is taken. A random key is integer work.
  const Count weights = elementCount(getParameter());
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
  for (int64_t matrix = 0; matrix < type.matrices(); ++matrix)
    MatrixUpdate(*this, evaluation, matrix * type.matrixSize()).run();
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
  setInteger(attributes, context, "matrices", maskTypeOf(getMask()).matrices());
  setInteger(attributes, context, "target", static_cast<int64_t>(getTarget()));
  setInteger(attributes, context, "has_age", getAge() ? 1 : 0);
  setNumber(attributes, context, "restart", getRestart().convertToDouble());
}
LogicalResult UpdateMaskOp::decompose(OpBuilder &, llvm::SmallVectorImpl<Value> &) {
  return failure();
}

} // namespace sluice
