#include "codegen/cuda/Nvrtc.h"

#include "codegen/cuda/Sources.h"

#include <cstdlib>
#include <dlfcn.h>

namespace sluice::cuda {

// X(entry point, its name, parameters): facts of NVRTC's public interface.
#define SLUICE_NVRTC(X)                                                                                      \
  X(version, "nvrtcVersion", (int *major, int *minor))                                                       \
  X(createProgram, "nvrtcCreateProgram",                                                                     \
    (void **program, const char *source, const char *name, int headerCount, const char *const *headers,      \
     const char *const *headerNames))                                                                        \
  X(destroyProgram, "nvrtcDestroyProgram", (void **program))                                                 \
  X(compileProgram, "nvrtcCompileProgram", (void *program, int optionCount, const char *const *options))     \
  X(getLogSize, "nvrtcGetProgramLogSize", (void *program, size_t *size))                                     \
  X(getLog, "nvrtcGetProgramLog", (void *program, char *log))                                                \
  X(getPtxSize, "nvrtcGetPTXSize", (void *program, size_t *size))                                            \
  X(getPtx, "nvrtcGetPTX", (void *program, char *ptx))                                                       \
  X(getCubinSize, "nvrtcGetCUBINSize", (void *program, size_t *size))                                        \
  X(getCubin, "nvrtcGetCUBIN", (void *program, char *cubin))

struct Nvrtc::Api {
#define SLUICE_NVRTC_MEMBER(entry, name, parameters) int(*entry) parameters = nullptr;
  SLUICE_NVRTC(SLUICE_NVRTC_MEMBER)
#undef SLUICE_NVRTC_MEMBER
};

StatusOr<std::shared_ptr<const Nvrtc>> Nvrtc::open() {
  std::vector<std::string> candidates;
  if (const char *path = std::getenv("SLUICE_NVRTC"))
    candidates = {path};
  else
    candidates = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
  void *handle = nullptr;
  for (const std::string &candidate : candidates)
    if (!handle)
      handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return failure(
        "NVRTC, the compiler of CUDA C++, was not found (looked for ", candidates.front(),
        "): install the CUDA toolkit, or the Python package nvidia-cuda-nvrtc and name its library in "
        "SLUICE_NVRTC");
  auto api = std::make_shared<Api>();
  std::string missing;
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(handle, name));
    if (!entry)
      missing += concat(missing.empty() ? "" : ", ", name);
  };
#define SLUICE_NVRTC_FIND(entry, name, parameters) find(api->entry, name);
  SLUICE_NVRTC(SLUICE_NVRTC_FIND)
#undef SLUICE_NVRTC_FIND
  if (!missing.empty())
    return failure("NVRTC lacks ", missing, "; version 12 or later is needed");
  auto nvrtc = std::make_shared<Nvrtc>();
  if (api->version(&nvrtc->major, &nvrtc->minor) != 0)
    return failure("NVRTC does not tell its version");
  nvrtc->api = std::move(api);
  return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
}

std::vector<std::string> compileOptions(const std::string &architecture) {
  return {"--gpu-architecture=" + architecture, "--std=c++17", "-lineinfo", "--fmad=true"};
}

StatusOr<std::string> Nvrtc::compile(const TranslationUnit &unit, const std::string &architecture) const {
  std::vector<std::string> texts;
  std::vector<const char *> headers, names, options;
  for (const SourceFile &file : librarySources()) {
    texts.emplace_back(file.text);
    names.push_back(file.name);
  }
  for (const std::string &text : texts)
    headers.push_back(text.c_str());
  const std::vector<std::string> optionTexts = compileOptions(architecture);
  for (const std::string &option : optionTexts)
    options.push_back(option.c_str());
  void *program = nullptr;
  if (api->createProgram(&program, unit.source.c_str(), unit.name.c_str(), static_cast<int>(headers.size()),
                         headers.data(), names.data()) != 0)
    return failure("NVRTC refuses ", unit.name);
  std::shared_ptr<void> guard(program, [this](void *created) { api->destroyProgram(&created); });
  if (api->compileProgram(program, static_cast<int>(options.size()), options.data()) != 0) {
    size_t size = 0;
    api->getLogSize(program, &size);
    std::string log(size, '\0');
    api->getLog(program, log.data());
    return failure("NVRTC cannot compile ", unit.name, " for ", architecture, ":\n", log.c_str());
  }
  const bool assembled = architecture.rfind("sm_", 0) == 0;
  size_t size = 0;
  if ((assembled ? api->getCubinSize : api->getPtxSize)(program, &size) != 0 || size == 0)
    return failure("NVRTC made nothing of ", unit.name, " for ", architecture);
  std::string code(size, '\0');
  (assembled ? api->getCubin : api->getPtx)(program, code.data());
  return code;
}

} // namespace sluice::cuda
