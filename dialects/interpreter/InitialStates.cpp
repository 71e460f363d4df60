#include "dialects/interpreter/Interpreter.h"
#include "dialects/sluice/Notation.h"
#include "runtime/support/Philox.h"

using namespace mlir;

namespace sluice {
namespace {

/// The mask as `random_mask` draws it.
FailureOr<HostTensor> initialMask(const std::string &name, MaskType type, uint64_t seed) {
  OpBuilder builder(type.getContext());
  Location loc = builder.getUnknownLoc();
  auto seedType = RankedTensorType::get({1}, builder.getI64Type());
  // The op is the one place that says what is drawn; it stands in a block of its own for the moment.
  Block block;
  block.addArgument(seedType, loc);
  builder.setInsertionPointToEnd(&block);
  auto op = RandomMaskOp::create(builder, loc, block.getArgument(0), builder.getStringAttr(name),
                                 TypeAttr::get(type));
  const HostTensor seedValue({1}, static_cast<double>(seed));
  Evaluation evaluation(op, {&seedValue});
  if (failed(op.evaluate(evaluation)))
    return mlir::failure();
  return evaluation.takeResults().front();
}

HostTensor initialValue(const std::string &name, Type type, Attribute init, uint64_t seed) {
  HostTensor tensor(cast<RankedTensorType>(type).getShape());
  if (auto fill = dyn_cast<FillAttr>(init)) {
    std::fill(tensor.values.begin(), tensor.values.end(),
              static_cast<float>(fill.getValue().getValueAsDouble()));
  } else if (auto normal = dyn_cast<NormalAttr>(init)) {
    PhiloxStream stream(seed, streamKey(name));
    const double deviation = normal.getStandardDeviation().getValueAsDouble();
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor[i] = static_cast<float>(deviation * stream.normal(static_cast<uint64_t>(i)));
  }
  return tensor;
}

} // namespace

TensorMap initialStates(ModuleOp module, uint64_t seed) {
  TensorMap states;
  for (const ParameterInfo &parameter : parametersOf(module)) {
    HostTensor &value = states[parameter.name] =
        initialValue(parameter.name, parameter.type, parameter.init, seed);
    if (!parameter.mask)
      continue;
    const std::string name = maskName(parameter.name);
    FailureOr<HostTensor> mask = initialMask(name, parameter.mask, seed);
    assert(succeeded(mask) && "random_mask always has a value");
    for (int64_t i = 0; i < value.size(); ++i)
      if ((*mask)[i] == 0)
        value[i] = 0;
    states[name] = std::move(*mask);
  }
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() != "parameter" && state.getRole() != "mask")
      states[state.getSymName().str()] =
          initialValue(state.getSymName().str(), wholeType(state), state.getInit(), seed);
  return states;
}

} // namespace sluice
