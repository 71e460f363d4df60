// One forward (and backward) of a model on given weights and tokens: by the interpreter in float64, or
// compiled.
#pragma once

#include "dialects/interpreter/Interpreter.h"
#include "frontends/cli/Compiler.h"
#include "runtime/checkpoint/WeightFiles.h"
#include "runtime/device/Device.h"
#include "runtime/executor/Session.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// tokens and targets, [batch, sequence]; a target of -100 is ignored.
struct ExecInputs {
  int64_t batch = 0, sequence = 0;
  std::vector<int32_t> tokens, targets;

  /// Reads tensors `tokens` and `targets` (integers, one shape) of a safetensors file.
  static StatusOr<ExecInputs> read(const std::string &path);
};

/// A model's weights and, for a masked model, its masks.
class ExecWeights {
public:
  /// `masks` is a safetensors file; empty: masks.safetensors in the folder `weights`, or else among the
  /// weights.
  static StatusOr<ExecWeights> open(const std::string &weights, const std::string &masks);
  /// Names of the weights, sorted.
  const std::vector<std::string> &names() const { return files.names(); }
  const TensorView *weight(std::string_view name) const { return files.find(name); }
  const TensorView *mask(std::string_view name) const { return masks ? masks->find(name) : files.find(name); }
  const std::string &maskPlace() const { return place; }
  /// Writes both into the session's states. Errors (bad input): what importModel and importMasks find.
  Status load(Session &session) const;

private:
  WeightFiles files;
  std::optional<SafetensorsFile> masks;
  std::string place = "weights"; // where masks come from, for messages
};

struct ExecTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// `logits` [batch, sequence, vocabulary], `loss` [1] (the objective: mean cross-entropy over counted targets
/// plus weighted auxiliary losses) and, if asked for, `grad/<name>` of it under the weight file's names; also
/// what the graph observes (`routing/<path>`).
using ExecOutputs = std::vector<ExecTensor>;

/// Runs phases up to `after` and interprets the graph.
StatusOr<ExecOutputs> execInterpreter(Compiler &compiler, LoadedModel model, const ExecWeights &weights,
                                      const ExecInputs &inputs, bool gradients, Phase after,
                                      bool simulateArenas);

/// Compiles the model and runs it on `device`.
StatusOr<ExecOutputs> execDevice(Compiler &compiler, LoadedModel model, const ExecWeights &weights,
                                 const ExecInputs &inputs, bool gradients, Device &device);

/// Runs an executable, whose bound sizes the inputs must have.
StatusOr<ExecOutputs> execExecutable(const Executable &executable, const ExecWeights &weights,
                                     const ExecInputs &inputs, bool gradients, Device &device);

/// What a comparison command by command found.
struct BisectReport {
  size_t compared = 0; // commands that agree
  double worst = 0;    // largest relative L2 error seen
  std::string command; // the first that does not, with kind and origin; empty if all agree
  double error = 0;    // of that one
};

/// Runs the compiled `accumulate` command by command and compares every result with the planned graph's in
/// float64: relative L2 at most `limit`, integers exact.
StatusOr<BisectReport> execBisect(Compiler &compiler, LoadedModel model, const ExecWeights &weights,
                                  const ExecInputs &inputs, double limit, Device &device);

/// Interprets `accumulate` of a planned module on these weights and inputs, for the sake of
/// `options.observe`.
Status interpretPlanned(mlir::ModuleOp module, const ExecWeights &weights, const ExecInputs &inputs,
                        const InterpreterOptions &options);

/// Writes the tensors as float64 (from the interpreter) or float32 (from a device).
Status writeExecOutputs(const std::string &path, const ExecOutputs &outputs, bool float64);

/// Splits a state's values over the names of a weight file (`{expert}` along the first dimension) under
/// `grad/`.
void appendGradient(ExecOutputs &outputs, const std::string &checkpointName,
                    const std::vector<int64_t> &shape, const std::vector<double> &values, double factor);

} // namespace sluice::cli
