#include "codegen/cpu/Generate.h"

#include "codegen/cpu/ObjectFile.h"
#include "codegen/cpu/SharedObject.h"

#include "llvm/Support/raw_ostream.h"

namespace sluice::cpu {

StatusOr<GeneratedKernels> generateKernels(llvm::ArrayRef<NamedKernel> kernels, CpuLevel level,
                                           bool keepSource) {
  llvm::LLVMContext context;
  mlir::FailureOr<std::unique_ptr<llvm::Module>> module = lowerKernels(kernels, level, context);
  if (mlir::failed(module))
    return failure("generated kernels could not be lowered for ", level.target(), "; see the messages above");
  GeneratedKernels result;
  result.target = level.target();
  if (keepSource) {
    llvm::raw_string_ostream stream(result.source);
    (*module)->print(stream, nullptr);
  }
  std::vector<std::string> names;
  for (const NamedKernel &kernel : kernels)
    names.push_back(kernel.name);
  addKernelTable(**module, names, level);
  SLUICE_ASSIGN_OR_RETURN(std::string object, compileObject(**module, level));
  SLUICE_ASSIGN_OR_RETURN(result.image, linkSharedObject(object));
  return result;
}

} // namespace sluice::cpu
