#include "codegen/cuda/LibraryUnits.h"

#include "codegen/cuda/Sources.h"

#include <algorithm>
#include <regex>

namespace sluice::cuda {
namespace {

/// Where a text defines a kernel: up to the end of its body, which is the next brace in the first column.
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

} // namespace

std::vector<std::string> kernelsOf(const std::string &source) {
  std::vector<std::string> kernels;
  for (const Definition &definition : definitionsOf(source))
    kernels.push_back(definition.kernel);
  return kernels;
}

std::vector<KernelUnit> libraryUnits(const std::optional<std::set<std::string>> &launched) {
  std::vector<KernelUnit> units;
  for (const SourceFile &file : librarySources()) {
    const std::string name = file.name, source(file.text);
    if (!name.ends_with(".cu"))
      continue;
    const std::vector<Definition> definitions = definitionsOf(source);
    for (const Definition &definition : definitions)
      if (!launched || launched->count(definition.kernel))
        units.push_back({{name, withOneKernel(source, definitions, definition)}, {definition.kernel}});
  }
  return units;
}

} // namespace sluice::cuda
