#include "codegen/kernel/Identity.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace sluice {
namespace {

/// Writes a block's ops with values numbered in order, without origins and locations.
class BodyText {
public:
  explicit BodyText(llvm::raw_ostream &stream) : stream(stream) {}

  void block(Block &block) {
    for (BlockArgument argument : block.getArguments())
      define(argument);
    for (Operation &op : block) {
      stream << op.getName() << "(";
      for (Value operand : op.getOperands())
        stream << numbers.lookup(operand) << ",";
      stream << ")";
      for (NamedAttribute attribute : op.getAttrDictionary())
        if (attribute.getName() != originAttributeName)
          stream << attribute.getName() << "=" << attribute.getValue() << ",";
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          this->block(inner);
      for (Value result : op.getResults())
        define(result);
      stream << ";";
    }
  }

private:
  void define(Value value) {
    numbers[value] = static_cast<int>(numbers.size());
    stream << ":" << value.getType();
  }

  llvm::raw_ostream &stream;
  llvm::DenseMap<Value, int> numbers;
};

} // namespace

std::string kernelName(KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << kernel.getKind() << kernel.getSettings();
  BodyText(stream).block(kernel.getBody().front());
  auto size = [&](StringRef name) -> int64_t {
    auto attribute = kernel.getSettings().getAs<IntegerAttr>(name);
    return attribute ? attribute.getInt() : 0;
  };
  return llvm::formatv("{0}_{1}x{2}_{3:x-16}", kernel.getKind(), size("rows"), size("columns"),
                       llvm::xxh3_64bits(text))
      .str();
}

} // namespace sluice
