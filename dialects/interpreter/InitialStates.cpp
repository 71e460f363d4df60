#include "dialects/interpreter/Interpreter.h"
#include "dialects/sluice/Notation.h"
#include "runtime/support/Philox.h"

using namespace mlir;

namespace sluice {
namespace {

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
  for (const ParameterInfo &parameter : parametersOf(module))
    states[parameter.name] = initialValue(parameter.name, parameter.type, parameter.init, seed);
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() != "parameter")
      states[state.getSymName().str()] =
          initialValue(state.getSymName().str(), state.getType(), state.getInit(), seed);
  return states;
}

} // namespace sluice
