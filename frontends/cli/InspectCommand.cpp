#include "frontends/cli/KernelReport.h"
#include "frontends/cli/LaunchReport.h"
#include "frontends/cli/Paths.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/executor/Inspect.h"

#include <cstdio>

namespace sluice::cli {

void addInspectCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command =
      app.add_subcommand("inspect", "Show what an executable holds: header, memory map, entry points, "
                                    "commands, kernels, ledger");
  auto path = std::make_shared<std::string>();
  auto options = std::make_shared<InspectOptions>();
  command->add_option("EXECUTABLE", *path, "A .slx file")->type_name("FILE.slx")->required();
  command->add_flag("--commands", options->allCommands, "Every command on a line of its own");
  auto kernels = std::make_shared<bool>(false);
  command->add_flag(
      "--kernels", *kernels,
      "Print what each CUDA kernel needs and how it is launched, with FLOPs and bytes, instead");
  auto source = std::make_shared<std::string>();
  command->add_option("--source", *source, "Print the CUDA C++ that holds this kernel instead")
      ->type_name("NAME");
  command->add_option("--tensors", options->largestTensors, "How many of the largest tensors to name")
      ->type_name("N")
      ->capture_default_str();
  command->callback([=, &invocation] {
    invocation.action = [=]() -> Status {
      SLUICE_RETURN_IF_ERROR(requireInput("EXECUTABLE", *path, "an executable (.slx)"));
      SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(*path));
      if (!source->empty()) {
        SLUICE_ASSIGN_OR_RETURN(std::string text, kernelSource(executable, *source));
        std::fwrite(text.data(), 1, text.size(), stdout);
        return absl::OkStatus();
      }
      if (*kernels) {
        SLUICE_ASSIGN_OR_RETURN(std::string text, kernelReport(executable));
        SLUICE_ASSIGN_OR_RETURN(std::string launches, launchReport(executable));
        text += launches;
        std::fwrite(text.data(), 1, text.size(), stdout);
        return absl::OkStatus();
      }
      std::string text = inspectExecutable(executable, *options);
      std::fwrite(text.data(), 1, text.size(), stdout);
      return absl::OkStatus();
    };
  });
}

} // namespace sluice::cli
