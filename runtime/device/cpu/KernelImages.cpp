#include "runtime/device/cpu/KernelImages.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace sluice::cpu {
namespace {

/// The features of a level that this host lacks, as text; empty when it can run the level's code.
std::string missingFeatures(uint32_t level) {
  std::string missing;
  auto need = [&](bool present, std::string_view name) {
    if (!present)
      missing += concat(missing.empty() ? "" : ", ", name);
  };
  if (level >= SLUICE_CPU_X86_64_V3) {
    need(__builtin_cpu_supports("avx2"), "AVX2");
    need(__builtin_cpu_supports("fma"), "FMA");
    need(__builtin_cpu_supports("bmi2"), "BMI2");
  }
  if (level >= SLUICE_CPU_X86_64_V4) {
    need(__builtin_cpu_supports("avx512f"), "AVX-512 F");
    need(__builtin_cpu_supports("avx512bw"), "AVX-512 BW");
    need(__builtin_cpu_supports("avx512cd"), "AVX-512 CD");
    need(__builtin_cpu_supports("avx512dq"), "AVX-512 DQ");
    need(__builtin_cpu_supports("avx512vl"), "AVX-512 VL");
  }
  return missing;
}

Status checkLibrary(const SluiceKernelLibrary *library, const std::string &target) {
  if (!library)
    return badInputError("kernel image '", target,
                         "' returned no kernel table; compile the executable again");
  if (library->abi_version != SLUICE_KERNEL_ABI_VERSION)
    return badInputError("kernel image '", target, "' has kernel ABI version ", library->abi_version,
                         ", this program needs ", SLUICE_KERNEL_ABI_VERSION,
                         "; compile the executable again");
  if (std::string missing = missingFeatures(library->cpu_level); !missing.empty())
    return failure("kernel image '", target, "' needs a CPU of level x86-64-v", library->cpu_level,
                   ", this one lacks ", missing, "; compile the executable for this machine");
  if (library->entry_count > 0 && !library->entries)
    return badInputError("kernel image '", target,
                         "' has an empty kernel table; compile the executable again");
  return absl::OkStatus();
}

} // namespace

KernelImages::~KernelImages() {
  for (void *library : libraries)
    ::dlclose(library);
  for (int file : files)
    ::close(file);
}

Status KernelImages::load(const KernelImage &image) {
  if (!image.target.starts_with("cpu"))
    return badInputError("kernel image '", image.target, "' is not for the CPU; choose another device");
  int file = ::memfd_create("sluice-kernels", MFD_CLOEXEC);
  if (file < 0)
    return failure("cannot create memory for kernel image '", image.target, "': ", std::strerror(errno));
  for (std::string_view rest = image.bytes; !rest.empty();) {
    ssize_t count = ::write(file, rest.data(), rest.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0) {
      Status status =
          failure("cannot write kernel image '", image.target, "' to memory: ", std::strerror(errno));
      ::close(file);
      return status;
    }
    rest.remove_prefix(static_cast<size_t>(count));
  }
  void *library = ::dlopen(concat("/proc/self/fd/", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  const char *reason = library ? nullptr : ::dlerror();
  std::string text = reason ? reason : "";
  // The file stays open as long as the library: the loader takes an equal path for the same library.
  if (!library) {
    ::close(file);
    return badInputError("kernel image '", image.target, "' is not a loadable shared object: ", text,
                         "; compile the executable again");
  }
  files.push_back(file);
  libraries.push_back(library);
  auto query = reinterpret_cast<SluiceKernelLibraryQuery>(::dlsym(library, SLUICE_KERNEL_LIBRARY_QUERY));
  if (!query)
    return badInputError("kernel image '", image.target, "' does not export ", SLUICE_KERNEL_LIBRARY_QUERY,
                         "; compile the executable again");
  const SluiceKernelLibrary *table = query();
  SLUICE_RETURN_IF_ERROR(checkLibrary(table, image.target));
  for (uint64_t i = 0; i < table->entry_count; ++i) {
    const SluiceKernelEntry &entry = table->entries[i];
    if (!entry.name || !entry.function)
      return badInputError("kernel image '", image.target, "': entry ", i, " has no name or no function");
    byName[entry.name] = {entry.function, entry.scratch_bytes};
  }
  return absl::OkStatus();
}

} // namespace sluice::cpu
