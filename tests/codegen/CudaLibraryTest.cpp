// The whole library of command kinds, masks included, as the compiler sees it: registers, memory, spills.
#include "codegen/cuda/Images.h"
#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace sluice::cuda {
namespace {

const std::vector<std::string> targets = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100"};

/// The library's kernels for each target, as the cubins describe them.
class CudaLibrary : public testing::Test {
protected:
  static void SetUpTestSuite() {
    StatusOr<std::vector<CudaImage>> images = compileImages({}, targets);
    ASSERT_TRUE(images.ok()) << images.status();
    ASSERT_EQ(images->size(), targets.size() + 1); // and PTX
    for (size_t index = 0; index < targets.size(); ++index) {
      const CudaImage &image = (*images)[index];
      ASSERT_EQ(image.target, targets[index]);
      StatusOr<std::vector<ArchivedModule>> modules = readModuleArchive(image.image, image.target);
      ASSERT_TRUE(modules.ok()) << modules.status();
      std::set<std::string> seen;
      for (const ArchivedModule &module : *modules) {
        StatusOr<std::vector<KernelResources>> found = readCubin(module.bytes, image.target);
        ASSERT_TRUE(found.ok()) << found.status();
        for (const KernelResources &kernel : *found) {
          ASSERT_TRUE(seen.insert(kernel.name).second) << kernel.name;
          kernels[kernel.name].push_back(kernel);
        }
        static const std::regex version("release [0-9.]+, V([0-9.]+)");
        if (std::smatch match; std::regex_search(module.bytes, match, version))
          compiler = match[1];
      }
      ASSERT_EQ(seen, std::set<std::string>(image.kernels.begin(), image.kernels.end()));
    }
  }

  static std::map<std::string, std::vector<KernelResources>> kernels; // one of each target
  static std::string compiler;                                        // "13.0.88", as the machine code says
};
std::map<std::string, std::vector<KernelResources>> CudaLibrary::kernels;
std::string CudaLibrary::compiler;

TEST_F(CudaLibrary, NoKernelSpillsOnAnyArchitecture) {
  for (const auto &[name, resources] : kernels) {
    ASSERT_EQ(resources.size(), targets.size()) << name;
    for (size_t i = 0; i < targets.size(); ++i) {
      SCOPED_TRACE(targets[i] + " " + name);
      EXPECT_EQ(resources[i].localBytes, 0);
      EXPECT_EQ(resources[i].spills, 0);
      // What a thread may have, and a block of the kernel's own bound beside it.
      EXPECT_LE(resources[i].registers * std::max<int64_t>(resources[i].maxThreads, 256), 65536);
      EXPECT_LE(resources[i].sharedBytes, 48 * 1024);
    }
  }
  for (const char *kernel : {"gemm", "attention_forward_32", "prune_groups", "block_gemm_16", "adamw"})
    EXPECT_TRUE(kernels.count(kernel)) << kernel;
}

/// A guard against unnoticed change, no more: by version of the compiler, which assigns registers.
TEST_F(CudaLibrary, Registers) {
  std::ostringstream table;
  table << "kernel";
  for (const std::string &target : targets)
    table << "," << target.substr(5);
  for (const auto &[name, resources] : kernels) {
    table << "\n" << name;
    for (const KernelResources &kernel : resources)
      table << "," << kernel.registers;
  }
  table << "\n";
  ASSERT_NE(compiler, "");
  const std::string path = concat(SLUICE_TEST_DATA, "/cuda/registers-", compiler, ".csv");
  if (std::getenv("SLUICE_UPDATE_GOLDENS"))
    ASSERT_TRUE(writeFileAtomically(path, table.str()).ok());
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no table for compiler " << compiler;
  StatusOr<std::string> golden = readFile(path);
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ(table.str(), *golden) << "SLUICE_UPDATE_GOLDENS=1 in the environment writes " << path;
}

} // namespace
} // namespace sluice::cuda
