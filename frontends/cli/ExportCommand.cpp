#include "frontends/cli/Paths.h"
#include "frontends/cli/RunSession.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/train/Weights.h"

#include <cstdio>

namespace sluice::cli {

void addExportCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command = app.add_subcommand(
      "export", "Write a run's weights as safetensors with Hugging Face names, and config.json");
  struct Flags {
    std::string run, output, checkpoint = "newest";
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("RUN", flags->run, "A run folder")->type_name("RUN")->required();
  command->add_option("-o,--output", flags->output, "Folder to make")->type_name("FOLDER")->required();
  command->add_option("--checkpoint", flags->checkpoint, "newest, best, or a checkpoint folder")
      ->type_name("CHECKPOINT")
      ->capture_default_str();
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation]() -> Status {
      SLUICE_RETURN_IF_ERROR(requireOutput("--output", flags->output));
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice("cpu", invocation));
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<RunSession> run,
                              RunSession::open(flags->run, flags->checkpoint, *device));
      SLUICE_RETURN_IF_ERROR(exportModel(run->session(), flags->output));
      std::printf("%s: weights of step %lld\n", flags->output.c_str(), static_cast<long long>(run->step()));
      return absl::OkStatus();
    };
  });
}

} // namespace sluice::cli
