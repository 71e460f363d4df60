#include "frontends/cli/KernelReport.h"

#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cuda/ModuleArchive.h"

#include "absl/strings/match.h"

namespace sluice::cli {
namespace {

std::string fit(const std::string &text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

StatusOr<std::string> targetTable(const KernelImageDescription &image) {
  std::string out = absl::StrFormat("\n%-48s %9s %9s %9s %7s %8s\n", image.target, "registers", "shared B",
                                    "local B", "spills", "threads");
  SLUICE_ASSIGN_OR_RETURN(std::vector<cuda::ArchivedModule> modules,
                          cuda::readModuleArchive(image.image, image.target));
  for (const cuda::ArchivedModule &module : modules) {
    SLUICE_ASSIGN_OR_RETURN(std::vector<cuda::KernelResources> kernels,
                            cuda::readCubin(module.bytes, image.target));
    for (const cuda::KernelResources &kernel : kernels)
      out += absl::StrFormat("  %-46s %9d %9d %9d %7d %8s\n", fit(kernel.name, 46), kernel.registers,
                             kernel.sharedBytes, kernel.localBytes, kernel.spills,
                             kernel.maxThreads ? concat("<= ", kernel.maxThreads) : std::string("any"));
  }
  return out;
}

} // namespace

StatusOr<std::string> kernelReport(const Executable &executable) {
  std::string out;
  for (const KernelImageDescription &image : executable.description.kernels)
    if (absl::StartsWith(image.target, "cuda:sm_")) {
      SLUICE_ASSIGN_OR_RETURN(std::string table, targetTable(image));
      out += table;
    }
  if (out.empty())
    return usageError("--kernels: expected an executable with CUDA kernels, found none; compile with "
                      "--target cuda:sm_80");
  return "Kernels (registers and local memory of a thread, shared memory of a block; spills are "
         "instructions)\n" +
         out;
}

} // namespace sluice::cli
