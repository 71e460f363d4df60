// sluice-run: the runtime alone, without MLIR and LLVM; the one to copy to the training machine.
#include "frontends/cli/RuntimeCommands.h"

int main(int argc, char **argv) {
  CLI::App app("The runtime of Sluice: trains, evaluates and samples compiled models", "sluice-run");
  sluice::cli::Invocation invocation;
  sluice::cli::addInspectCommand(app, invocation);
  sluice::cli::addDataCommand(app, invocation);
  sluice::cli::addTrainCommand(
      app, invocation,
      [](const std::string &model, const std::vector<std::string> &,
         int64_t) -> sluice::StatusOr<sluice::cli::ResolvedModel> {
        return sluice::cli::ResolvedModel{
            "", [=](const std::vector<std::string> &) { return sluice::loadExecutable(model); }};
      },
      "an executable (.slx)");
  sluice::cli::addEvalCommand(app, invocation);
  sluice::cli::addGenerateCommand(app, invocation);
  sluice::cli::addMasksCommand(app, invocation);
  sluice::cli::addExportCommand(app, invocation);
  sluice::cli::addDoctorCommand(app, invocation);
  // Last, since commands would inherit it.
  app.footer("Models are executables (.slx) made by `sluice compile`. Exit codes: 0 done, 1 failure, 2 "
             "usage, 3 bad input "
             "file, 4 diverged, 5 interrupted with a good checkpoint.");
  return sluice::cli::runProgram(app, invocation, argc, argv);
}
