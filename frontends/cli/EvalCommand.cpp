#include "frontends/cli/Paths.h"
#include "frontends/cli/RunSession.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/data/Dataset.h"
#include "runtime/train/Evaluate.h"

#include <cstdio>

namespace sluice::cli {

void addEvalCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand("eval", "Validation loss of a run's newest (or best) checkpoint");
  struct Flags {
    std::string run, data, device = "cpu", checkpoint = "newest";
    uint64_t windows = 0;
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("RUN", flags->run, "A run folder")->type_name("RUN")->required();
  command->add_option("--data", flags->data, "A folder made by `data pack`")->type_name("DATA")->required();
  command->add_option("--checkpoint", flags->checkpoint, "newest, best, or a checkpoint folder")
      ->type_name("CHECKPOINT")
      ->capture_default_str();
  command->add_option("--windows", flags->windows, "Windows of the validation split to use; 0: all")
      ->type_name("N")
      ->capture_default_str();
  addDevice(*command, flags->device);
  addThreads(*command, invocation);
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation]() -> Status {
      SLUICE_RETURN_IF_ERROR(requireDataset("--data", flags->data));
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(flags->device, invocation));
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<RunSession> run,
                              RunSession::open(flags->run, flags->checkpoint, *device));
      SLUICE_ASSIGN_OR_RETURN(Dataset dataset, Dataset::open(flags->data));
      SLUICE_RETURN_IF_ERROR(
          checkVocabulary(run->session().description(), dataset.tokenizer().vocabulary(), flags->data));
      SLUICE_ASSIGN_OR_RETURN(BatchShape shape, batchShape(run->session(), "eval"));
      SLUICE_ASSIGN_OR_RETURN(WindowMode mode, run->windowMode());
      SLUICE_ASSIGN_OR_RETURN(
          WindowStream windows,
          WindowStream::openFixed(dataset.validation(), dataset.tokenizer(), mode, shape.sequence));
      SLUICE_ASSIGN_OR_RETURN(Evaluation result, evaluate(run->session(), windows, flags->windows));
      std::printf("%s at step %lld: %.6f nats/token, %.6f bits/byte, %.6f bits/character (%.0f tokens, %llu "
                  "windows)\n",
                  flags->run.c_str(), static_cast<long long>(run->step()), result.natsPerToken(),
                  result.bitsPerByte(), result.bitsPerCharacter(), result.targets,
                  static_cast<unsigned long long>(result.windows));
      return absl::OkStatus();
    };
  });
}

} // namespace sluice::cli
