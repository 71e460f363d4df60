#include "frontends/cli/Exec.h"

#include "dialects/interpreter/Interpreter.h"
#include "dialects/sluice/Notation.h"
#include "dialects/sluice/Sluice.h"
#include "runtime/checkpoint/TensorConversion.h"
#include "runtime/train/Masks.h"
#include "runtime/train/Weights.h"

#include "llvm/Support/Casting.h"

using namespace mlir;

namespace sluice::cli {
namespace {

/// A mask of the graph, as the checks of files take it. Where masks start full (gradual pruning) any number
/// of kept weights is one that they may have.
StatusOr<ModelMask> describeMask(const ParameterInfo &parameter) {
  ModelMask mask;
  MaskType type = parameter.mask;
  mask.name = maskName(parameter.name);
  mask.patternName = type.getPattern().str();
  mask.isStacked = type.getShape().size() == 3, mask.matrices = type.matrices();
  const int64_t columns = type.getShape().back();
  std::optional<MaskPattern> pattern =
      MaskPattern::read(mask.patternName, type.matrixSize() / columns, columns, type.getKept());
  if (!pattern)
    return failure("mask '", mask.name, "': its type has a pattern that does not fit its shape");
  mask.pattern = *pattern;
  mask.target = type.getKept() == type.matrixSize() ? 1 : type.getKept();
  return mask;
}

/// The mask of `parameter` as zeros and ones, checked against its type and against the weights.
StatusOr<HostTensor> readMask(const ParameterInfo &parameter, const HostTensor &weight,
                              const ExecWeights &weights) {
  SLUICE_ASSIGN_OR_RETURN(const ModelMask mask, describeMask(parameter));
  const TensorView *tensor = weights.mask(mask.name);
  if (!tensor || tensor->type != TensorType::U8)
    return badInputError(weights.maskPlace(), ": expected the mask '", mask.name, "' of bytes, found ",
                         tensor ? tensorTypeName(tensor->type) : "none");
  const std::string_view bits(reinterpret_cast<const char *>(tensor->data), tensor->bytes);
  SLUICE_RETURN_IF_ERROR(checkMaskBits(mask, bits, weights.maskPlace()));
  SLUICE_RETURN_IF_ERROR(checkZerosOutside(
      mask, bits, parameter.name, [&](int64_t i) { return weight[i]; }, weights.maskPlace()));
  HostTensor value(parameter.mask.getShape());
  for (int64_t i = 0; i < value.size(); ++i)
    value[i] = keepsWeight(bits, i) ? 1 : 0;
  return value;
}

/// The parameters' values from the weight file; stacked parameters collect one tensor an expert.
StatusOr<TensorMap> readStates(ModuleOp module, const ExecWeights &weights) {
  TensorMap states;
  for (const ParameterInfo &parameter : parametersOf(module)) {
    StateTensor state;
    state.name = parameter.name;
    state.checkpointName = parameter.checkpoint;
    state.place.shape.assign(parameter.type.getShape().begin(), parameter.type.getShape().end());
    HostTensor value(parameter.type.getShape());
    size_t filled = 0;
    for (const std::string &name : weightNames(state)) {
      const TensorView *tensor = weights.weight(name);
      if (!tensor)
        return badInputError("weights: expected a tensor '", name, "' for parameter '", parameter.name,
                             "', found none");
      SLUICE_ASSIGN_OR_RETURN(std::vector<double> values, toFloat64(*tensor));
      if (filled + values.size() > value.values.size())
        return badInputError("weights: tensor '", name, "' has more elements than parameter '",
                             parameter.name, "'");
      std::copy(values.begin(), values.end(), value.values.begin() + static_cast<int64_t>(filled));
      filled += values.size();
    }
    if (filled != value.values.size())
      return badInputError("weights: parameter '", parameter.name, "' has ", value.values.size(),
                           " elements, found ", filled);
    if (parameter.mask) {
      SLUICE_ASSIGN_OR_RETURN(states[maskName(parameter.name)], readMask(parameter, value, weights));
    }
    states[parameter.name] = std::move(value);
  }
  // Gradients and moments exist from *differentiate* on and start at zero.
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() != "parameter" && state.getRole() != "mask")
      states[state.getSymName().str()] = HostTensor(wholeType(state).getShape());
  return states;
}

std::map<std::string, double> auxiliaryWeights(ModuleOp module) {
  std::map<std::string, double> weights;
  if (auto attribute = module->getAttrOfType<DictionaryAttr>("sluice.auxiliary_weights"))
    for (NamedAttribute entry : attribute)
      weights[entry.getName().str()] = llvm::cast<FloatAttr>(entry.getValue()).getValueAsDouble();
  module.walk(
      [&](AuxiliaryLossOp loss) { weights[loss.getName().str()] = loss.getWeight().convertToDouble(); });
  return weights;
}

HostTensor idTensor(const std::vector<int32_t> &ids, int64_t firstRow, int64_t rows, int64_t sequence) {
  HostTensor tensor({rows, sequence});
  for (int64_t index = 0; index < rows * sequence; ++index)
    tensor[index] = ids[static_cast<size_t>(firstRow * sequence + index)];
  return tensor;
}

ExecTensor fromHost(const std::string &name, const HostTensor &value) {
  return {name, std::vector<int64_t>(value.shape.begin(), value.shape.end()), value.values};
}

TensorMap arguments(const ExecInputs &inputs) {
  return {{"tokens", idTensor(inputs.tokens, 0, inputs.batch, inputs.sequence)},
          {"targets", idTensor(inputs.targets, 0, inputs.batch, inputs.sequence)}};
}

} // namespace

Status interpretPlanned(ModuleOp module, const ExecWeights &weights, const ExecInputs &inputs,
                        const InterpreterOptions &options) {
  SLUICE_ASSIGN_OR_RETURN(TensorMap states, readStates(module, weights));
  return Interpreter(module, options).run("accumulate", arguments(inputs), states).status();
}

StatusOr<ExecOutputs> execInterpreter(Compiler &compiler, LoadedModel model, const ExecWeights &weights,
                                      const ExecInputs &inputs, bool gradients, Phase after,
                                      bool simulateArenas) {
  if (after < Phase::Bind)
    after = Phase::Bind;
  if (gradients && after < Phase::Differentiate)
    return usageError("--after: gradients exist from phase differentiate on, found ", phaseName(after).str());
  CompilerOptions options;
  options.bindings = concat("batch=", inputs.batch, ",seq=", inputs.sequence);
  SLUICE_RETURN_IF_ERROR(compiler.run(model, after, options));
  ModuleOp module = *model.module;
  SLUICE_ASSIGN_OR_RETURN(TensorMap states, readStates(module, weights));
  InterpreterOptions interpreterOptions;
  interpreterOptions.simulateArenas = simulateArenas;
  Interpreter interpreter(module, interpreterOptions);

  bool entries = after >= Phase::Differentiate;
  SLUICE_ASSIGN_OR_RETURN(TensorMap results,
                          interpreter.run(entries ? "accumulate" : "model", arguments(inputs), states));
  ExecOutputs outputs;
  double counted = 0;
  for (int32_t target : inputs.targets)
    counted += target != -100;
  double loss = results.at("loss_sum")[0] / counted;
  for (const auto &[name, weight] : auxiliaryWeights(module))
    if (auto value = results.find("auxiliary/" + name); value != results.end())
      loss += weight * value->second[0];
  outputs.push_back({"loss", {1}, {loss}});
  for (const auto &[name, value] : results)
    if (llvm::StringRef(name).starts_with("routing/"))
      outputs.push_back(fromHost(name, value));
  if (auto logits = results.find("logits"); logits != results.end()) {
    outputs.push_back(fromHost("logits", logits->second));
  } else {
    ExecTensor all{"logits", {}, {}};
    for (int64_t row = 0; row < inputs.batch; ++row) {
      SLUICE_ASSIGN_OR_RETURN(
          TensorMap one,
          interpreter.run("logits", {{"tokens", idTensor(inputs.tokens, row, 1, inputs.sequence)}}, states));
      const HostTensor &value = one.at("logits");
      all.shape.assign(value.shape.begin(), value.shape.end());
      all.values.insert(all.values.end(), value.values.begin(), value.values.end());
    }
    all.shape[0] = inputs.batch;
    outputs.push_back(std::move(all));
  }
  if (gradients)
    for (const ParameterInfo &parameter : parametersOf(module)) {
      const HostTensor &value = states.at(parameter.name + ".gradient");
      appendGradient(outputs, parameter.checkpoint,
                     std::vector<int64_t>(value.shape.begin(), value.shape.end()), value.values,
                     1.0 / counted);
    }
  return outputs;
}

} // namespace sluice::cli
