#include "codegen/package/Compile.h"

#include "codegen/cpu/Generate.h"
#include "codegen/package/Describe.h"
#include "dialects/plan/Plan.h"

#include <map>

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

} // namespace

StatusOr<std::string> compileToExecutable(mlir::ModuleOp planned, const CompileOptions &options) {
  SLUICE_ASSIGN_OR_RETURN(ExecutableDescription description, describePlan(planned));
  description.producer = options.producer;
  description.model = options.model;
  if (description.model.empty())
    description.model = planned.getSymName() ? planned.getSymName()->str() : "model";
  description.ledger = options.ledger;
  description.targets = {"cpu"};

  std::vector<cpu::NamedKernel> kernels;
  for (auto &[name, kernel] : kernelsOf(planned))
    kernels.push_back({name, kernel});
  SLUICE_ASSIGN_OR_RETURN(cpu::GeneratedKernels generated,
                          cpu::generateKernels(kernels, options.level, options.keepSource));
  KernelImageDescription image{generated.target, std::move(generated.image), std::move(generated.source), {}};
  for (const cpu::NamedKernel &kernel : kernels)
    image.kernels.push_back(kernel.name);
  description.kernels.push_back(std::move(image));

  SLUICE_RETURN_IF_ERROR(checkExecutable(description, "the new executable"));
  return serializeExecutable(description);
}

} // namespace sluice
