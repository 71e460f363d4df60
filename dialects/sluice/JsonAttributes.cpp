#include "dialects/sluice/JsonAttributes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace sluice {

Attribute jsonToAttribute(MLIRContext *context, const llvm::json::Value &value) {
  Builder builder(context);
  if (const llvm::json::Object *object = value.getAsObject()) {
    llvm::SmallVector<NamedAttribute> entries;
    for (const auto &entry : *object)
      entries.emplace_back(builder.getStringAttr(entry.first.str()), jsonToAttribute(context, entry.second));
    return builder.getDictionaryAttr(entries);
  }
  if (const llvm::json::Array *array = value.getAsArray()) {
    llvm::SmallVector<Attribute> elements;
    for (const llvm::json::Value &element : *array)
      elements.push_back(jsonToAttribute(context, element));
    return builder.getArrayAttr(elements);
  }
  if (std::optional<bool> boolean = value.getAsBoolean())
    return builder.getBoolAttr(*boolean);
  if (std::optional<int64_t> integer = value.getAsInteger();
      integer && value.kind() == llvm::json::Value::Number)
    return builder.getI64IntegerAttr(*integer);
  if (std::optional<double> number = value.getAsNumber())
    return builder.getF64FloatAttr(*number);
  if (std::optional<llvm::StringRef> text = value.getAsString())
    return builder.getStringAttr(*text);
  return builder.getUnitAttr();
}

llvm::json::Value attributeToJson(Attribute attribute) {
  return llvm::TypeSwitch<Attribute, llvm::json::Value>(attribute)
      .Case([](DictionaryAttr dictionary) {
        llvm::json::Object object;
        for (NamedAttribute entry : dictionary)
          object[entry.getName().str()] = attributeToJson(entry.getValue());
        return llvm::json::Value(std::move(object));
      })
      .Case([](ArrayAttr array) {
        llvm::json::Array elements;
        for (Attribute element : array)
          elements.push_back(attributeToJson(element));
        return llvm::json::Value(std::move(elements));
      })
      .Case([](BoolAttr boolean) { return llvm::json::Value(boolean.getValue()); })
      .Case([](IntegerAttr integer) { return llvm::json::Value(integer.getInt()); })
      .Case([](FloatAttr number) { return llvm::json::Value(number.getValueAsDouble()); })
      .Case([](StringAttr text) { return llvm::json::Value(text.getValue().str()); })
      .Case([](UnitAttr) { return llvm::json::Value(nullptr); })
      .Default([](Attribute other) {
        std::string text;
        llvm::raw_string_ostream(text) << other;
        return llvm::json::Value(text);
      });
}

std::string attributeToJsonText(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << (attribute ? attributeToJson(attribute) : llvm::json::Object{});
  return text;
}

} // namespace sluice
