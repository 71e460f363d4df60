#include "codegen/cuda/Cache.h"

#include "codegen/cuda/Sources.h"
#include "runtime/support/CacheFolder.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"

#include <filesystem>

namespace sluice::cuda {
namespace {

std::string keyOf(const Nvrtc &nvrtc, const TranslationUnit &unit, const std::string &architecture) {
  std::string text = concat(nvrtc.version(), "\n", unit.source);
  for (const std::string &option : compileOptions(architecture))
    text += "\n" + option;
  for (const SourceFile &file : librarySources())
    text += concat("\n", file.name, "\n", std::string(file.text));
  return sha256Hex(text);
}

/// A file holds the code and, after it, the code's hash: a damaged file is no hit.
constexpr size_t digestLength = 64;

} // namespace

StatusOr<std::string> compileCached(const Nvrtc &nvrtc, const TranslationUnit &unit,
                                    const std::string &architecture) {
  const std::string folder = cacheFolder();
  if (folder.empty())
    return nvrtc.compile(unit, architecture);
  const std::string path = folder + "/nvrtc/" + keyOf(nvrtc, unit, architecture);
  if (StatusOr<std::string> found = readFile(path); found.ok() && found->size() > digestLength) {
    std::string code = found->substr(0, found->size() - digestLength);
    if (sha256Hex(code) == found->substr(code.size()))
      return code;
  }
  SLUICE_ASSIGN_OR_RETURN(std::string code, nvrtc.compile(unit, architecture));
  std::error_code ignored;
  std::filesystem::create_directories(folder + "/nvrtc", ignored);
  writeFileAtomically(path, code + sha256Hex(code))
      .IgnoreError(); // a cache that cannot be written is only slow
  return code;
}

} // namespace sluice::cuda
