#include "codegen/cuda/Images.h"

#include "codegen/cuda/Cache.h"
#include "codegen/cuda/Sources.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/support/ThreadPool.h"

#include <algorithm>
#include <regex>
#include <thread>

namespace sluice::cuda {
namespace {

/// The kernels that a unit defines, in order.
std::vector<std::string> kernelsOf(const std::string &source) {
  static const auto *definition =
      new std::regex(R"(extern "C" __global__ void(?:\s+__launch_bounds__\([\d, ]+\))?\s+(\w+)\()");
  std::vector<std::string> names;
  for (std::sregex_iterator match(source.begin(), source.end(), *definition), end; match != end; ++match)
    names.push_back((*match)[1]);
  return names;
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
                                               const std::vector<std::string> &targets, Library library) {
  std::vector<std::string> architectures;
  for (const std::string &target : targets) {
    SLUICE_ASSIGN_OR_RETURN(std::string architecture, architectureOf(target));
    architectures.push_back(architecture);
  }
  if (architectures.empty())
    return std::vector<CudaImage>();
  architectures.push_back(lowestPortable(architectures));
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Nvrtc> nvrtc, Nvrtc::open());

  std::vector<TranslationUnit> units;
  for (const SourceFile &file : librarySources())
    if (std::string name = file.name;
        name.ends_with(".cu") && (library == Library::Whole || !name.starts_with("Mask")))
      units.push_back({name, std::string(file.text)});
  units.insert(units.end(), generated.begin(), generated.end());

  std::vector<StatusOr<std::string>> code(architectures.size() * units.size(), std::string());
  ThreadPool pool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  pool.forEach(static_cast<int64_t>(code.size()), [&](int64_t task, int) {
    const size_t index = static_cast<size_t>(task);
    code[index] = compileCached(*nvrtc, units[index % units.size()], architectures[index / units.size()]);
  });

  std::vector<CudaImage> images;
  for (size_t a = 0; a < architectures.size(); ++a) {
    CudaImage image;
    image.target = "cuda:" + architectures[a];
    std::vector<ArchivedModule> modules;
    for (size_t u = 0; u < units.size(); ++u) {
      SLUICE_RETURN_IF_ERROR(code[a * units.size() + u].status());
      modules.push_back({kernelsOf(units[u].source), *std::move(code[a * units.size() + u])});
      image.kernels.insert(image.kernels.end(), modules.back().kernels.begin(), modules.back().kernels.end());
    }
    if (a + 1 == architectures.size()) // once: the same text made them all
      for (const TranslationUnit &unit : units)
        image.source += concat("// ", unit.name, "\n", unit.source, "\n");
    image.image = writeModuleArchive(modules);
    images.push_back(std::move(image));
  }
  return images;
}

} // namespace sluice::cuda
