#include "dialects/sluice/ops/Answers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace sluice {

InFlightDiagnostic ruleError(Operation *op) {
  InFlightDiagnostic diagnostic = op->emitOpError();
  if (OriginAttr origin = originOf(op))
    diagnostic << "at '" << origin.getPath() << "': ";
  return diagnostic;
}

std::string dimsText(llvm::ArrayRef<Dim> dims) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(dims, stream, [&](const Dim &dim) {
    if (dim.isStatic())
      stream << dim.size;
    else
      stream << dim.name;
  });
  stream << "]";
  return text;
}

std::string listText(llvm::ArrayRef<int64_t> numbers) {
  return dimsText(llvm::SmallVector<Dim>(numbers.begin(), numbers.end()));
}

std::string commaText(llvm::ArrayRef<int64_t> numbers) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(numbers, stream, ",");
  return text;
}

std::string numbersText(llvm::ArrayRef<double> numbers) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  // 17 digits give every double back.
  llvm::interleave(numbers, stream, [&](double number) { stream << llvm::format("%.17g", number); }, ",");
  return text;
}

LogicalResult requireShape(Operation *op, llvm::StringRef name, Value value, llvm::ArrayRef<Dim> expected,
                           llvm::StringRef why) {
  if (llvm::ArrayRef<Dim>(dimsOf(value.getType())) == expected)
    return success();
  return ruleError(op) << name << " must be " << dimsText(expected) << " (" << why << "), found "
                       << shapeText(value.getType());
}

LogicalResult requireRank(Operation *op, llvm::StringRef name, Value value, int64_t least) {
  if (tensorTypeOf(value).getRank() >= least)
    return success();
  return ruleError(op) << name << " must have at least " << least << " dimensions, found "
                       << shapeText(value.getType());
}

LogicalResult inferRank(std::optional<Location> location, llvm::StringRef op, llvm::StringRef name,
                        Value value, int64_t least, int64_t most) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && type.getRank() >= least && type.getRank() <= most)
    return success();
  llvm::StringRef bound = least == most ? "" : "at least ";
  return emitOptionalError(location, "'sluice.", op, "' op ", name, " must have ", bound, least,
                           " dimensions, found ", shapeText(value.getType()));
}

Count wholeElements(Operation *op, Count typed) {
  auto whole = op->getAttrOfType<IntegerAttr>(wholeElementsAttributeName);
  return whole ? Count(whole.getInt()) : typed;
}

std::optional<llvm::SmallVector<Dim>> broadcastDims(llvm::ArrayRef<llvm::SmallVector<Dim>> shapes) {
  size_t rank = 0;
  for (const llvm::SmallVector<Dim> &shape : shapes)
    rank = std::max<size_t>(rank, shape.size());
  llvm::SmallVector<Dim> result(rank, Dim(1));
  for (const llvm::SmallVector<Dim> &shape : shapes) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      Dim &target = result[rank - shape.size() + axis];
      if (shape[axis] == Dim(1) || shape[axis] == target)
        continue;
      if (!(target == Dim(1)))
        return std::nullopt;
      target = shape[axis];
    }
  }
  return result;
}

bool broadcastsTo(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to) {
  if (from.size() > to.size())
    return false;
  for (auto [source, target] : llvm::zip(from, to.take_back(from.size())))
    if (!(source == Dim(1)) && !(source == target))
      return false;
  return true;
}

llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis])
    strides[axis] = stride;
  return strides;
}

llvm::SmallVector<int64_t> broadcastStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  llvm::SmallVector<int64_t> strides(to.size(), 0), own = stridesOf(from);
  const size_t lead = to.size() - from.size();
  for (size_t axis = 0; axis < from.size(); ++axis)
    strides[lead + axis] = from[axis] == 1 ? 0 : own[axis];
  return strides;
}

int64_t offsetOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis)
    offset += index[axis] * strides[axis];
  return offset;
}

void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>, int64_t)> visit) {
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t linear = 0; linear < size; ++linear) {
    visit(index, linear);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}

void setInteger(NamedAttrList &attributes, MLIRContext *context, llvm::StringRef name, int64_t value) {
  attributes.set(name, IntegerAttr::get(IntegerType::get(context, 64), value));
}
void setNumber(NamedAttrList &attributes, MLIRContext *context, llvm::StringRef name, double value) {
  attributes.set(name, FloatAttr::get(Float64Type::get(context), value));
}
void setText(NamedAttrList &attributes, MLIRContext *context, llvm::StringRef name, llvm::StringRef value) {
  attributes.set(name, StringAttr::get(context, value));
}

} // namespace sluice
