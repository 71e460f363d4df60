#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/Exec.h"
#include "frontends/cli/Paths.h"
#include "frontends/cli/SimulatorChecks.h"

#include <cstdio>

namespace sluice::cli {
namespace {

struct ExecFlags {
  std::string model, weights, masks, inputs, output, device, after, checks;
  bool gradients = false, arenas = false, bisect = false;
  double limit = 1e-5;
};

Status bisect(const ExecFlags &flags, const Invocation &invocation, Compiler &compiler, LoadedModel model,
              const ExecWeights &weights, const ExecInputs &inputs) {
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<Device> device,
      openDevice(flags.device.empty() || flags.device == "interpreter" ? "cpu" : flags.device, invocation));
  SLUICE_ASSIGN_OR_RETURN(BisectReport report,
                          execBisect(compiler, std::move(model), weights, inputs, flags.limit, *device));
  if (!report.command.empty())
    return failure(report.command, ": relative error ", report.error, ", limit ", flags.limit, "; the ",
                   report.compared, " commands before it agree");
  std::printf("all %zu commands agree with the interpreter; largest relative error %.3g\n", report.compared,
              report.worst);
  return absl::OkStatus();
}

Status report(const ExecFlags &flags, const ExecOutputs &outputs, bool float64) {
  for (const ExecTensor &tensor : outputs)
    if (tensor.name == "loss")
      std::printf("loss %.9g\n", tensor.values[0]);
  return flags.output.empty() ? absl::OkStatus() : writeExecOutputs(flags.output, outputs, float64);
}

/// An executable has its sizes and no graph: it runs on a device only.
Status execCompiled(const ExecFlags &flags, const Invocation &invocation, const ExecWeights &weights,
                    const ExecInputs &inputs) {
  if (flags.bisect || !flags.after.empty() || flags.device == "interpreter")
    return usageError("MODEL: the interpreter runs graphs, found the executable '", flags.model,
                      "'; give its spec or graph");
  SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(flags.model));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                          openDevice(flags.device.empty() ? "cpu" : flags.device, invocation));
  SLUICE_ASSIGN_OR_RETURN(ExecOutputs outputs,
                          execExecutable(executable, weights, inputs, flags.gradients, *device));
  return report(flags, outputs, /*float64=*/false);
}

Status execOnce(const ExecFlags &flags, const Invocation &invocation) {
  SLUICE_RETURN_IF_ERROR(
      requireInput("MODEL", flags.model, "a spec, a graph, an executable or a config.json"));
  SLUICE_RETURN_IF_ERROR(
      requireInput("--inputs", flags.inputs, "a safetensors file with tokens and targets"));
  SLUICE_RETURN_IF_ERROR(
      requireInput("--weights", flags.weights, "a safetensors file, an index or a folder"));
  SLUICE_RETURN_IF_ERROR(requireOutput("--output", flags.output));
  SLUICE_ASSIGN_OR_RETURN(ExecInputs inputs, ExecInputs::read(flags.inputs));
  if (!flags.masks.empty())
    SLUICE_RETURN_IF_ERROR(requireInput("--masks", flags.masks, "a safetensors file with masks"));
  SLUICE_ASSIGN_OR_RETURN(ExecWeights weights, ExecWeights::open(flags.weights, flags.masks));
  if (isExecutable(flags.model))
    return execCompiled(flags, invocation, weights, inputs);
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel model, compiler.load(flags.model));
  if (flags.bisect)
    return bisect(flags, invocation, compiler, std::move(model), weights, inputs);
  bool interpreter = flags.device.empty() || flags.device == "interpreter";
  ExecOutputs outputs;
  if (interpreter) {
    Phase after = flags.gradients ? Phase::Differentiate : Phase::Bind;
    if (!flags.after.empty()) {
      std::optional<Phase> phase = phaseByName(flags.after);
      if (!phase)
        return usageError("--after: expected a phase, found '", flags.after,
                          "'; `sluice compile --help` lists them");
      after = *phase;
    }
    SLUICE_ASSIGN_OR_RETURN(outputs, execInterpreter(compiler, std::move(model), weights, inputs,
                                                     flags.gradients, after, flags.arenas));
  } else {
    if (!flags.after.empty())
      return usageError("--after: only the interpreter runs a graph after a phase; leave --device out");
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(flags.device, invocation));
    SLUICE_ASSIGN_OR_RETURN(
        outputs, execDevice(compiler, std::move(model), weights, inputs, flags.gradients, *device));
  }
  return report(flags, outputs, interpreter);
}

/// execOnce under the simulated driver's checks. What is found explains a run that failed, so it comes first.
Status execChecked(const ExecFlags &flags, const Invocation &invocation) {
  if (flags.checks.empty())
    return execOnce(flags, invocation);
  if (flags.device != "cuda-sim")
    return usageError("--check: the simulated driver checks; expected --device cuda-sim, found '",
                      flags.device.empty() ? "interpreter" : flags.device, "'");
  SLUICE_ASSIGN_OR_RETURN(std::string library, simulatedDriver());
  SLUICE_RETURN_IF_ERROR(startChecks(library, flags.checks));
  Status outcome = execOnce(flags, invocation);
  SLUICE_RETURN_IF_ERROR(finishChecks(library));
  return outcome;
}

} // namespace

void addExecCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand(
      "exec",
      "Run a model once on given weights and tokens; writes logits, loss and, with --grad, gradients");
  auto flags = std::make_shared<ExecFlags>();
  command
      ->add_option("MODEL", flags->model,
                   "A spec (.yaml), a graph (.mlir), an executable (.slx) or a config.json")
      ->type_name("MODEL")
      ->required();
  command->add_option("--weights", flags->weights, "Safetensors: a file, an index or a folder")
      ->type_name("WEIGHTS")
      ->required();
  command
      ->add_option(
          "--masks", flags->masks,
          "Masks of a masked model (safetensors, one bit a weight; `export` and checkpoints have them); "
          "else masks.safetensors in the folder of the weights, or tensors among the weights")
      ->type_name("FILE");
  command->add_option("--inputs", flags->inputs, "Safetensors with tokens and targets, [batch, sequence]")
      ->type_name("FILE")
      ->required();
  command->add_flag("--grad", flags->gradients, "Also write grad/<name> under the weight file's names");
  command
      ->add_option(
          "--device", flags->device,
          "interpreter (float64, plain loops; the default), cpu (for an executable the default), cuda, "
          "cuda:N or cuda-sim")
      ->type_name("DEVICE");
  command
      ->add_option(
          "--check", flags->checks,
          "With --device cuda-sim: some of memory, init, race, barrier, launch, or all; what is found "
          "is printed, and the exit code is 1")
      ->type_name("LIST");
  command->add_option("--after", flags->after, "Interpret the graph as it stands after this phase")
      ->type_name("PHASE");
  command->add_flag(
      "--check-arenas", flags->arenas,
      "After phase plan: run through simulated arenas and report any value that is overwritten too early");
  command->add_flag(
      "--bisect", flags->bisect,
      "Run the compiled program command by command and name the first result that leaves the interpreter's");
  command->add_option("--limit", flags->limit, "Largest relative L2 error that --bisect accepts")
      ->type_name("X")
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "Safetensors file to write")->type_name("FILE");
  addThreads(*command, invocation);
  command->callback(
      [=, &invocation] { invocation.action = [=, &invocation] { return execChecked(*flags, invocation); }; });
}

} // namespace sluice::cli
