#include "frontends/cli/Compiler.h"
#include "frontends/cli/CompilerCommands.h"
#include "frontends/cli/Paths.h"
#include "frontends/huggingface/WeightCheck.h"

#include "dialects/ledger/Ledger.h"
#include "runtime/support/File.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstdio>

namespace sluice::cli {
namespace {

Status importOnce(const std::string &model, const std::string &output) {
  SLUICE_RETURN_IF_ERROR(requireInput("FOLDER", model, "a Hugging Face folder with config.json"));
  SLUICE_RETURN_IF_ERROR(requireOutput("--output", output));
  const bool isFolder = llvm::sys::fs::is_directory(model);
  if (!isFolder && llvm::sys::path::extension(model) != ".json")
    return usageError("FOLDER: expected a Hugging Face folder with config.json, found '", model,
                      "'; specs and graphs are models already (`sluice graph`)");
  const std::string folder = isFolder ? model : llvm::sys::path::parent_path(model).str();
  Compiler compiler;
  SLUICE_ASSIGN_OR_RETURN(LoadedModel loaded, compiler.load(model));
  std::string weights = "no weights beside it";
  if (hasWeights(folder.empty() ? "." : folder)) {
    SLUICE_ASSIGN_OR_RETURN(WeightReport report, checkWeights(*loaded.module, folder.empty() ? "." : folder));
    SLUICE_RETURN_IF_ERROR(weightStatus(report, folder.empty() ? "." : folder));
    weights = concat("its weights fit: ", report.tensors, " tensors, ", groupedDigits(report.elements),
                     " elements in ", report.files, report.files == 1 ? " file" : " files");
  }
  const std::string graph = printModule(*loaded.module);
  if (output == "-") {
    std::fwrite(graph.data(), 1, graph.size(), stdout);
    return absl::OkStatus();
  }
  if (!output.empty())
    SLUICE_RETURN_IF_ERROR(writeFileAtomically(output, graph));
  std::printf("%s: %s\n", model.c_str(), weights.c_str());
  if (!output.empty())
    std::printf("written to %s; next: sluice stats %s\n", output.c_str(), output.c_str());
  return absl::OkStatus();
}

} // namespace

void addImportCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command =
      app.add_subcommand("import", "Turn a Hugging Face folder into a graph and check its weights");
  struct Flags {
    std::string folder, output;
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("FOLDER", flags->folder, "A folder with config.json, with or without safetensors")
      ->type_name("FOLDER")
      ->required();
  command
      ->add_option("-o,--output", flags->output,
                   "Graph to write (.mlir); - is standard output; absent: only check")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  sluice import Mixtral-8x7B-v0.1 -o mixtral.mlir\n"
      "  sluice stats mixtral.mlir --bind batch=1,seq=4096\n"
      "\n"
      "Weights are compared by name, shape and type, from one or several files (index); missing, extra and "
      "mis-shaped tensors are listed, with exit code 3. No weight is loaded.");
  command->callback(
      [=, &invocation] { invocation.action = [=] { return importOnce(flags->folder, flags->output); }; });
}

} // namespace sluice::cli
