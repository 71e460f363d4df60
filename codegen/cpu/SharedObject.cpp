#include "codegen/cpu/SharedObject.h"

#include "runtime/support/File.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

namespace sluice::cpu {
namespace {

StatusOr<std::string> findLinker() {
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
  if (auto path = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"}))
    return *path;
  return failure(
      "cannot link generated kernels: neither ld.lld-22 nor ld.lld is on the PATH; install lld-22");
}

} // namespace

StatusOr<std::string> linkSharedObject(const std::string &object) {
  SLUICE_ASSIGN_OR_RETURN(std::string linker, findLinker());
  llvm::SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("sluice-link", folder))
    return failure("cannot create a temporary folder: ", error.message());
  llvm::scope_exit cleanUp([&] { llvm::sys::fs::remove_directories(folder); });
  std::string input = concat(folder.str().str(), "/kernels.o"),
              output = concat(folder.str().str(), "/kernels.so");
  std::string messages = concat(folder.str().str(), "/messages");
  SLUICE_RETURN_IF_ERROR(writeFile(input, object));
  llvm::StringRef arguments[] = {linker, "-shared", "--no-undefined", "--hash-style=gnu",
                                 "-s",   "-z",      "noexecstack",    "-o",
                                 output, input};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(""),
                                                llvm::StringRef(messages)};
  std::string problem;
  if (llvm::sys::ExecuteAndWait(linker, arguments, std::nullopt, redirects, 0, 0, &problem) != 0) {
    StatusOr<std::string> text = readFile(messages);
    return failure("linking generated kernels with ", linker, " failed: ", problem, text.ok() ? *text : "");
  }
  return readFile(output);
}

} // namespace sluice::cpu
