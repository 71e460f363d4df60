#include "codegen/cuda/Images.h"

#include "codegen/cuda/Cache.h"
#include "codegen/cuda/LibraryUnits.h"
#include "codegen/cuda/Sources.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/support/ThreadPool.h"

#include <algorithm>
#include <regex>
#include <thread>

namespace sluice::cuda {
namespace {

/// The text of the library's files that define these kernels.
std::string libraryText(const std::vector<KernelUnit> &units) {
  std::set<std::string> names;
  for (const KernelUnit &unit : units)
    names.insert(unit.text.name);
  std::string text;
  for (const SourceFile &file : librarySources())
    if (names.count(file.name))
      text += concat("// ", file.name, "\n", file.text, "\n");
  return text;
}

/// "sm_90a" of "cuda:sm_90a".
StatusOr<std::string> architectureOf(const std::string &target) {
  static const auto *form = new std::regex("cuda:(sm_([0-9]{2,3})[af]?)");
  std::smatch match;
  if (!std::regex_match(target, match, *form))
    return usageError("--target: expected cuda:sm_N, such as cuda:sm_80, found '", target, "'");
  return match[1].str();
}

/// The PTX that most devices take: of the lowest architecture.
std::string lowestPortable(const std::vector<std::string> &architectures) {
  int lowest = INT32_MAX;
  for (const std::string &architecture : architectures)
    lowest = std::min(lowest, std::atoi(architecture.c_str() + 3));
  return concat("compute_", lowest);
}

} // namespace

StatusOr<std::vector<CudaImage>> compileImages(const std::vector<TranslationUnit> &generated,
                                               const std::vector<std::string> &targets,
                                               const std::optional<std::set<std::string>> &launched) {
  std::vector<std::string> architectures;
  for (const std::string &target : targets) {
    SLUICE_ASSIGN_OR_RETURN(std::string architecture, architectureOf(target));
    architectures.push_back(architecture);
  }
  if (architectures.empty())
    return std::vector<CudaImage>();
  architectures.push_back(lowestPortable(architectures));
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Nvrtc> nvrtc, Nvrtc::open());

  std::vector<KernelUnit> units = libraryUnits(launched);
  std::string text = libraryText(units);
  for (const TranslationUnit &unit : generated) {
    text += concat("// ", unit.name, "\n", unit.source, "\n");
    units.push_back({unit, kernelsOf(unit.source)});
  }

  std::vector<StatusOr<std::string>> code(architectures.size() * units.size(), std::string());
  ThreadPool pool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  pool.forEach(static_cast<int64_t>(code.size()), [&](int64_t task, int) {
    const size_t index = static_cast<size_t>(task);
    code[index] =
        compileCached(*nvrtc, units[index % units.size()].text, architectures[index / units.size()]);
  });

  std::vector<CudaImage> images;
  for (size_t a = 0; a < architectures.size(); ++a) {
    CudaImage image;
    image.target = "cuda:" + architectures[a];
    std::vector<ArchivedModule> modules;
    for (size_t u = 0; u < units.size(); ++u) {
      SLUICE_RETURN_IF_ERROR(code[a * units.size() + u].status());
      modules.push_back({units[u].kernels, *std::move(code[a * units.size() + u])});
      image.kernels.insert(image.kernels.end(), modules.back().kernels.begin(), modules.back().kernels.end());
    }
    if (a + 1 == architectures.size()) // once: the same text made them all
      image.source = text;
    image.image = writeModuleArchive(modules);
    images.push_back(std::move(image));
  }
  return images;
}

} // namespace sluice::cuda
