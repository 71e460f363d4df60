#include "frontends/cli/Exec.h"
#include "frontends/cli/Invocation.h"

#include "runtime/executor/Session.h"
#include "runtime/train/Weights.h"

#include <nlohmann/json.hpp>

namespace sluice::cli {
namespace {

StatusOr<ExecTensor> readOutput(const Session &session, const std::string &entry, const std::string &name) {
  SLUICE_ASSIGN_OR_RETURN(const Operand *operand, session.output(entry, name));
  std::vector<float> values(static_cast<size_t>(operand->elements()));
  SLUICE_RETURN_IF_ERROR(session.getOutput<float>(entry, name, absl::MakeSpan(values)));
  return ExecTensor{name, operand->shape, std::vector<double>(values.begin(), values.end())};
}

/// The objective's mean: cross-entropy and the weighted auxiliary losses of the training section.
StatusOr<double> objective(const Session &session) {
  SLUICE_ASSIGN_OR_RETURN(float sum, session.scalarOutput("accumulate", "loss_sum"));
  SLUICE_ASSIGN_OR_RETURN(float counted, session.scalarOutput("accumulate", "tokens"));
  double loss = static_cast<double>(sum) / counted;
  nlohmann::json training = nlohmann::json::parse(session.description().training, nullptr, false);
  if (training.is_object() && training.contains("losses"))
    for (const auto &[name, weight] : training["losses"].items())
      if (session.output("accumulate", "auxiliary/" + name).ok()) {
        SLUICE_ASSIGN_OR_RETURN(float value, session.scalarOutput("accumulate", "auxiliary/" + name));
        loss += weight.get<double>() * value;
      }
  return loss;
}

} // namespace

StatusOr<ExecOutputs> execDevice(Compiler &compiler, LoadedModel model, const ExecWeights &weights,
                                 const ExecInputs &inputs, bool gradients, Device &device) {
  CompilerOptions options;
  options.bindings = concat("batch=", inputs.batch, ",seq=", inputs.sequence);
  options.cudaTargets = targetsFor(device.name());
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, compiler.compile(model, options));
  SLUICE_ASSIGN_OR_RETURN(Executable executable, parseExecutable(std::move(bytes), "the compiled model"));
  return execExecutable(executable, weights, inputs, gradients, device);
}

StatusOr<ExecOutputs> execExecutable(const Executable &executable, const ExecWeights &weights,
                                     const ExecInputs &inputs, bool gradients, Device &device) {
  SLUICE_ASSIGN_OR_RETURN(Session session, Session::create(executable, device));
  SLUICE_ASSIGN_OR_RETURN(const Operand *bound, session.input("accumulate", "tokens"));
  if (bound->shape != std::vector<int64_t>{inputs.batch, inputs.sequence})
    return usageError("--inputs: expected tokens of shape [", bound->shape[0], ", ", bound->shape[1],
                      "], which the program is compiled for, found [", inputs.batch, ", ", inputs.sequence,
                      "]");
  SLUICE_RETURN_IF_ERROR(weights.load(session));

  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate", "tokens", inputs.tokens));
  SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate", "targets", inputs.targets));
  SLUICE_RETURN_IF_ERROR(session.run("accumulate"));
  ExecOutputs outputs;
  SLUICE_ASSIGN_OR_RETURN(double loss, objective(session));
  outputs.push_back({"loss", {1}, {loss}});
  for (const NamedOperand &output : session.description().entry("accumulate")->outputs)
    if (output.name.rfind("routing/", 0) == 0) {
      SLUICE_ASSIGN_OR_RETURN(ExecTensor tensor, readOutput(session, "accumulate", output.name));
      outputs.push_back(std::move(tensor));
    }
  ExecTensor all{"logits", {}, {}};
  for (int64_t row = 0; row < inputs.batch; ++row) {
    absl::Span<const int32_t> tokens(inputs.tokens.data() + row * inputs.sequence,
                                     static_cast<size_t>(inputs.sequence));
    SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("logits", "tokens", tokens));
    SLUICE_RETURN_IF_ERROR(session.run("logits"));
    SLUICE_ASSIGN_OR_RETURN(ExecTensor one, readOutput(session, "logits", "logits"));
    all.shape = one.shape;
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
  }
  all.shape[0] = inputs.batch;
  outputs.push_back(std::move(all));
  if (gradients) {
    SLUICE_ASSIGN_OR_RETURN(float counted, session.scalarOutput("accumulate", "tokens"));
    for (const StateTensor &tensor : session.description().tensors) {
      if (tensor.role != TensorRole::Gradient)
        continue;
      const StateTensor *parameter = session.description().tensor(tensor.parameter);
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      SLUICE_RETURN_IF_ERROR(session.readState(tensor, values.data(), tensor.bytes()));
      appendGradient(outputs, parameter->checkpointName, tensor.shape(),
                     std::vector<double>(values.begin(), values.end()), 1.0 / static_cast<double>(counted));
    }
  }
  return outputs;
}

} // namespace sluice::cli
