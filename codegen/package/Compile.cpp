#include "codegen/package/Compile.h"

#include "codegen/cpu/Generate.h"
#include "codegen/cuda/EmitKernel.h"
#include "codegen/cuda/Images.h"
#include "codegen/package/Describe.h"
#include "dialects/plan/Plan.h"
#include "runtime/device/cuda/LaunchPlan.h"

#include <map>
#include <set>

namespace sluice {
namespace {

/// The generated kernels that commands launch, each once, by name.
std::map<std::string, KernelOp> kernelsOf(mlir::ModuleOp planned) {
  std::map<std::string, KernelOp> kernels;
  planned.walk([&](plan::CommandOp command) {
    auto name = command.getSettings().getAs<mlir::StringAttr>("kernel");
    if (command.getKind() != "launch" || !name)
      return;
    for (KernelOp kernel : command.getBody().front().getOps<KernelOp>())
      kernels.try_emplace(name.getValue().str(), kernel);
  });
  return kernels;
}

/// The kernels that the programs launch on CUDA. Error: a command that the CUDA device cannot run.
StatusOr<std::set<std::string>> launchedKernels(const ExecutableDescription &description) {
  std::vector<uint64_t> arenas;
  arenas.reserve(description.arenas.size());
  for (const ArenaDescription &arena : description.arenas)
    arenas.push_back(arena.bytes);
  std::set<std::string> kernels;
  for (const EntryPoint &entry : description.entries) {
    SLUICE_ASSIGN_OR_RETURN(std::vector<cuda::CommandLaunches> planned,
                            cuda::planLaunches(entry.commands, arenas));
    for (const cuda::CommandLaunches &command : planned)
      for (const cuda::Launch &launch : command.launches)
        kernels.insert(launch.kernel);
  }
  return kernels;
}

/// The kernels as CUDA C++, compiled for every target with those of the library that the programs launch.
Status addCudaImages(const std::vector<NamedKernel> &kernels, const CompileOptions &options,
                     ExecutableDescription &description) {
  if (options.cudaTargets.empty())
    return absl::OkStatus();
  std::vector<cuda::TranslationUnit> units;
  for (const NamedKernel &kernel : kernels) {
    mlir::FailureOr<cuda::TranslationUnit> unit = cuda::emitKernel(kernel);
    if (mlir::failed(unit))
      return failure("generated kernel '", kernel.name,
                     "' could not be written as CUDA C++; see the messages above");
    units.push_back(std::move(*unit));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::set<std::string> launched, launchedKernels(description));
  SLUICE_ASSIGN_OR_RETURN(std::vector<cuda::CudaImage> images,
                          cuda::compileImages(units, options.cudaTargets, launched));
  description.targets.push_back("cuda");
  for (cuda::CudaImage &image : images)
    description.kernels.push_back(
        {std::move(image.target), std::move(image.image), std::move(image.source), std::move(image.kernels)});
  return absl::OkStatus();
}

} // namespace

StatusOr<std::string> compileToExecutable(mlir::ModuleOp planned, const CompileOptions &options) {
  SLUICE_ASSIGN_OR_RETURN(ExecutableDescription description, describePlan(planned));
  description.producer = options.producer;
  description.model = options.model;
  if (description.model.empty())
    description.model = planned.getSymName() ? planned.getSymName()->str() : "model";
  description.ledger = options.ledger;
  description.targets = {"cpu"};

  std::vector<NamedKernel> kernels;
  for (auto &[name, kernel] : kernelsOf(planned))
    kernels.push_back({name, kernel});
  SLUICE_ASSIGN_OR_RETURN(cpu::GeneratedKernels generated,
                          cpu::generateKernels(kernels, options.level, options.keepSource));
  KernelImageDescription image{generated.target, std::move(generated.image), std::move(generated.source), {}};
  for (const NamedKernel &kernel : kernels)
    image.kernels.push_back(kernel.name);
  description.kernels.push_back(std::move(image));
  SLUICE_RETURN_IF_ERROR(addCudaImages(kernels, options, description));

  SLUICE_RETURN_IF_ERROR(checkExecutable(description, "the new executable"));
  return serializeExecutable(description);
}

} // namespace sluice
