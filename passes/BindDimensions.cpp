#include "dialects/sluice/Dims.h"
#include "passes/Passes.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;

namespace sluice {
#define GEN_PASS_DEF_BINDDIMENSIONS
#include "passes/Passes.h.inc"

namespace {

/// The text of a set of names for messages: "batch, seq" or "none".
std::string listed(const std::set<std::string> &names) {
  return names.empty() ? "none" : llvm::join(names, ", ");
}

/// Binds one graph. Collects every name it meets, so that errors can list them.
class GraphBinder {
public:
  GraphBinder(GraphOp graph, const llvm::StringMap<int64_t> &bindings, std::set<std::string> &known)
      : graph(graph), bindings(bindings), known(known) {}

  LogicalResult run() {
    graph.walk([&](Operation *op) { collect(op->getResultTypes()); });
    collect(graph.getBlock()->getArgumentTypes());

    for (BlockArgument argument : graph.getBlock()->getArguments())
      if (failed(bindValue(argument, graph)))
        return failure();
    // Operands come before users, and bodies after their op's operands: one sweep in program order binds all.
    WalkResult result = graph.walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (Region &region : op->getRegions())
        if (op != graph.getOperation())
          for (BlockArgument argument : region.getArguments())
            if (failed(bindValue(argument, op)))
              return WalkResult::interrupt();
      for (Value value : op->getResults())
        if (failed(bindValue(value, op)))
          return WalkResult::interrupt();
      return failed(checkInferred(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

private:
  void collect(TypeRange types) {
    for (Type type : types) {
      if (auto routing = dyn_cast<RoutingType>(type))
        collectProduct(routing.getTokens().getValue());
      else if (isa<RankedTensorType>(type))
        for (const Dim &dim : dimsOf(type))
          if (!dim.isStatic())
            collectProduct(dim.name);
    }
  }
  void collectProduct(StringRef product) {
    SmallVector<StringRef> factors;
    product.split(factors, '*');
    int64_t number;
    for (StringRef factor : factors)
      if (factor.trim().getAsInteger(10, number))
        known.insert(factor.trim().str());
  }

  FailureOr<int64_t> number(StringRef product, Operation *op) {
    std::string missing;
    std::optional<int64_t> size = evaluate(product, bindings, missing);
    if (!size) {
      op->emitError() << "dimension '" << missing << "' has no size or overflows; bind it, e.g. --bind "
                      << missing << "=8 (names of this model: " << listed(known) << ")";
      return failure();
    }
    return *size;
  }

  LogicalResult bindValue(Value value, Operation *op) {
    Type type = value.getType();
    if (auto routing = dyn_cast<RoutingType>(type)) {
      FailureOr<int64_t> tokens = number(routing.getTokens().getValue(), op);
      if (failed(tokens))
        return failure();
      value.setType(RoutingType::get(type.getContext(), routing.getExperts(), routing.getTopK(),
                                     StringAttr::get(type.getContext(), std::to_string(*tokens))));
      return success();
    }
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || (tensor.hasStaticShape() && !tensor.getEncoding()))
      return success();
    SmallVector<int64_t> sizes;
    for (const Dim &dim : dimsOf(type)) {
      FailureOr<int64_t> size = dim.isStatic() ? FailureOr<int64_t>(dim.size) : number(dim.name, op);
      if (failed(size))
        return failure();
      sizes.push_back(*size);
    }
    value.setType(RankedTensorType::get(sizes, tensor.getElementType()));
    return success();
  }

  /// What the op infers from its bound operands must be what the names said.
  LogicalResult checkInferred(Operation *op) {
    auto inferable = dyn_cast<InferTypeOpInterface>(op);
    if (!inferable)
      return success();
    SmallVector<Type> inferred;
    if (failed(inferable.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(),
                                          op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
                                          op->getRegions(), inferred)))
      return op->emitError() << "shapes do not fit together under these bindings";
    for (auto [index, pair] : llvm::enumerate(llvm::zip(inferred, op->getResultTypes())))
      if (std::get<0>(pair) != std::get<1>(pair))
        return op->emitError() << "result " << index << " is " << shapeText(std::get<1>(pair))
                               << " by its names but " << shapeText(std::get<0>(pair)) << " by its operands";
    return success();
  }

  GraphOp graph;
  const llvm::StringMap<int64_t> &bindings;
  std::set<std::string> &known;
};

struct BindDimensions : impl::BindDimensionsBase<BindDimensions> {
  using BindDimensionsBase::BindDimensionsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<std::pair<std::string, int64_t>> given;
    if (failed(parseBindings(given)))
      return signalPassFailure();

    std::set<std::string> known;
    for (GraphOp graph : module.getOps<GraphOp>()) {
      llvm::StringMap<int64_t> bound;
      for (auto &[name, size] : given)
        bound[name] = size;
      if (auto fixed = graph->getAttrOfType<DictionaryAttr>("sluice.fixed_bindings"))
        for (NamedAttribute entry : fixed)
          bound[entry.getName().getValue()] = cast<IntegerAttr>(entry.getValue()).getInt();
      graph->removeAttr("sluice.fixed_bindings");
      if (failed(GraphBinder(graph, bound, known).run()))
        return signalPassFailure();
    }
    for (auto &[name, size] : given)
      if (!known.count(name)) {
        module.emitError() << "no dimension is called '" << name
                           << "'; names of this model: " << listed(known);
        return signalPassFailure();
      }

    warnOfShortTables(module);

    Builder builder(module->getContext());
    SmallVector<NamedAttribute> entries;
    for (auto &[name, size] : given)
      entries.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(size)));
    module->setAttr("sluice.bindings", builder.getDictionaryAttr(entries));
  }

private:
  /// A sequence longer than a table of learned positions has counts, but no meaning: said once.
  static void warnOfShortTables(ModuleOp module) {
    module.walk([](PositionEmbeddingOp op) {
      const int64_t sequence = op.getX().getType().getDimSize(1),
                    rows = op.getTable().getType().getDimSize(0);
      if (sequence <= rows)
        return WalkResult::advance();
      op.emitWarning() << "seq = " << sequence << " is longer than the table of " << rows
                       << " learned positions: the model can be counted, not compiled or run";
      return WalkResult::interrupt();
    });
  }

  /// "batch=8,seq=256" as pairs.
  LogicalResult parseBindings(SmallVectorImpl<std::pair<std::string, int64_t>> &given) {
    SmallVector<StringRef> parts;
    StringRef(bindings).split(parts, ',', -1, /*KeepEmpty=*/false);
    for (StringRef part : parts) {
      auto [name, text] = part.split('=');
      int64_t size = 0;
      if (name.trim().empty() || text.trim().getAsInteger(10, size) || size < 1)
        return getOperation().emitError()
               << "binding '" << part << "': expected NAME=SIZE with a size of at least 1";
      for (auto &[other, otherSize] : given)
        if (other == name.trim())
          return getOperation().emitError() << "dimension '" << name.trim() << "' is bound twice";
      given.emplace_back(name.trim().str(), size);
    }
    return success();
  }
};

} // namespace
} // namespace sluice
