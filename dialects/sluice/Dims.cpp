#include "dialects/sluice/Dims.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace sluice {

llvm::SmallVector<Dim> dimsOf(mlir::Type type) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  auto names = llvm::dyn_cast_or_null<DimsAttr>(tensor.getEncoding());
  llvm::SmallVector<Dim> dims;
  for (int64_t axis = 0; axis < tensor.getRank(); ++axis) {
    if (!tensor.isDynamicDim(axis))
      dims.emplace_back(tensor.getDimSize(axis));
    else if (names && axis < static_cast<int64_t>(names.getNames().size()))
      dims.emplace_back(names.getNames()[axis].getValue().str());
    else
      dims.emplace_back(std::string("?"));
  }
  return dims;
}

mlir::RankedTensorType tensorOf(llvm::ArrayRef<Dim> dims, mlir::Type elementType) {
  mlir::MLIRContext *context = elementType.getContext();
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<mlir::StringAttr> names;
  bool anyNamed = false;
  for (const Dim &dim : dims) {
    sizes.push_back(dim.isStatic() ? dim.size : mlir::ShapedType::kDynamic);
    names.push_back(mlir::StringAttr::get(context, dim.isStatic() ? "_" : dim.name));
    anyNamed |= !dim.isStatic();
  }
  return mlir::RankedTensorType::get(
      sizes, elementType, anyNamed ? mlir::Attribute(DimsAttr::get(context, names)) : mlir::Attribute());
}

Dim productOf(llvm::ArrayRef<Dim> dims) {
  int64_t number = 1;
  llvm::SmallVector<std::string> names;
  for (const Dim &dim : dims) {
    if (dim.isStatic()) {
      number *= dim.size;
      continue;
    }
    llvm::SmallVector<llvm::StringRef> factors;
    llvm::StringRef(dim.name).split(factors, '*');
    for (llvm::StringRef factor : factors) {
      int64_t value = 0;
      if (factor.trim().getAsInteger(10, value))
        names.push_back(factor.trim().str());
      else
        number *= value;
    }
  }
  if (names.empty())
    return Dim(number);
  llvm::sort(names);
  std::string text = llvm::join(names, "*");
  return Dim(number == 1 ? text : std::to_string(number) + "*" + text);
}

Dim leadingProduct(mlir::Type type) {
  llvm::SmallVector<Dim> dims = dimsOf(type);
  if (!dims.empty()) // a scalar: rules look at operands before their rank is checked
    dims.pop_back();
  return productOf(dims);
}

std::optional<int64_t> evaluate(llvm::StringRef product, const llvm::StringMap<int64_t> &bindings,
                                std::string &missing) {
  int64_t value = 1;
  llvm::SmallVector<llvm::StringRef> factors;
  product.split(factors, '*');
  for (llvm::StringRef factor : factors) {
    factor = factor.trim();
    int64_t size = 0;
    if (factor.getAsInteger(10, size)) {
      auto found = bindings.find(factor);
      if (found == bindings.end()) {
        missing = factor.str();
        return std::nullopt;
      }
      size = found->second;
    }
    if (__builtin_mul_overflow(value, size, &value)) {
      missing = product.str();
      return std::nullopt;
    }
  }
  return value;
}

std::string shapeText(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!tensor) {
    stream << type;
    return text;
  }
  stream << "[";
  llvm::interleaveComma(dimsOf(type), stream, [&](const Dim &dim) {
    if (dim.isStatic())
      stream << dim.size;
    else
      stream << dim.name;
  });
  stream << "]";
  return text;
}

} // namespace sluice
