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

/// Where a unit defines a kernel: up to the end of its body, which is the next brace in the first column.
struct Definition {
  std::string kernel;
  size_t begin, end;
};
std::vector<Definition> definitionsOf(const std::string &source) {
  static const auto *start =
      new std::regex(R"(extern "C" __global__ void(?:\s+__launch_bounds__\([\d, ]+\))?\s+(\w+)\()");
  std::vector<Definition> definitions;
  for (std::sregex_iterator match(source.begin(), source.end(), *start), last; match != last; ++match) {
    const auto begin = static_cast<size_t>(match->position());
    definitions.push_back({(*match)[1], begin, source.find("\n}\n", begin) + 2});
  }
  return definitions;
}

/// The source with one of its kernels alone; all lines keep their numbers.
std::string withOneKernel(std::string source, const std::vector<Definition> &definitions,
                          const Definition &kernel) {
  for (const Definition &other : definitions)
    if (other.begin != kernel.begin)
      std::replace_if(
          source.begin() + static_cast<ptrdiff_t>(other.begin),
          source.begin() + static_cast<ptrdiff_t>(other.end), [](char c) { return c != '\n'; }, ' ');
  return source;
}

/// What is compiled at once, and the kernels in it.
struct Unit {
  TranslationUnit text;
  std::vector<std::string> kernels;
};

/// Adds a unit a kernel of the library, and the text of the files that they come from.
void addLibrary(const std::optional<std::set<std::string>> &launched, std::vector<Unit> &units,
                std::string &text) {
  for (const SourceFile &file : librarySources()) {
    const std::string name = file.name, source(file.text);
    if (!name.ends_with(".cu"))
      continue;
    const size_t before = units.size();
    const std::vector<Definition> definitions = definitionsOf(source);
    for (const Definition &definition : definitions)
      if (!launched || launched->count(definition.kernel))
        units.push_back({{name, withOneKernel(source, definitions, definition)}, {definition.kernel}});
    if (units.size() > before)
      text += concat("// ", name, "\n", source, "\n");
  }
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

  std::vector<Unit> units;
  std::string text;
  addLibrary(launched, units, text);
  for (const TranslationUnit &unit : generated) {
    text += concat("// ", unit.name, "\n", unit.source, "\n");
    units.push_back({unit, {}});
    for (const Definition &definition : definitionsOf(unit.source))
      units.back().kernels.push_back(definition.kernel);
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
