// sluice: compile, count, train, look.
#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/RuntimeCommands.h"

int main(int argc, char **argv) {
  CLI::App app("Sluice: a graph compiler and training runtime for dense, Mixture-of-Experts and "
               "masked-sparse language "
               "models",
               "sluice");
  sluice::cli::Invocation invocation;
  sluice::cli::addGraphCommand(app, invocation);
  sluice::cli::addImportCommand(app, invocation);
  sluice::cli::addStatsCommand(app, invocation);
  sluice::cli::addTwinCommand(app, invocation);
  sluice::cli::addCompileCommand(app, invocation);
  sluice::cli::addInspectCommand(app, invocation);
  sluice::cli::addDataCommand(app, invocation);
  sluice::cli::addTrainCommand(app, invocation, sluice::cli::compilingResolver(),
                               "a spec (.yaml), a graph (.mlir), an executable (.slx) or a config.json");
  sluice::cli::addEvalCommand(app, invocation);
  sluice::cli::addGenerateCommand(app, invocation);
  sluice::cli::addMasksCommand(app, invocation);
  sluice::cli::addExecCommand(app, invocation);
  sluice::cli::addExportCommand(app, invocation);
  sluice::cli::addSchemaCommand(app, invocation);
  sluice::cli::addDoctorCommand(app, invocation);
  // Last, since commands would inherit it.
  app.footer("A first tour:\n"
             "  sluice graph   models/paper1/moe-4x-top2.yaml -o moe.mlir\n"
             "  sluice stats   moe.mlir --bind batch=8,seq=256\n"
             "  sluice compile moe.mlir --bind batch=8,seq=256 -o moe.slx\n"
             "  sluice data pack corpus.txt --vocab 4096 -o data/\n"
             "  sluice train   models/demo/moe.yaml --data data/ --out runs/moe\n"
             "\n"
             "Each command has a --help of its own. Exit codes: 0 done, 1 failure, 2 usage or spec, 3 bad "
             "input file, "
             "4 diverged, 5 interrupted with a good checkpoint.");
  return sluice::cli::runProgram(app, invocation, argc, argv);
}
