// The whole library of command kinds, masks included, as the compiler sees it.
#include "codegen/cuda/Images.h"
#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cuda/ModuleArchive.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::cuda {
namespace {

TEST(CudaLibrary, NoKernelSpillsOnAnyArchitecture) {
  const std::vector<std::string> targets = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100"};
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
      StatusOr<std::vector<KernelResources>> kernels = readCubin(module.bytes, image.target);
      ASSERT_TRUE(kernels.ok()) << kernels.status();
      for (const KernelResources &kernel : *kernels) {
        EXPECT_TRUE(seen.insert(kernel.name).second) << kernel.name;
        EXPECT_EQ(kernel.localBytes, 0) << image.target << " " << kernel.name;
        EXPECT_EQ(kernel.spills, 0) << image.target << " " << kernel.name;
        // What a thread may have, and a block of the kernel's own bound beside it.
        EXPECT_LE(kernel.registers * std::max<int64_t>(kernel.maxThreads, 256), 65536)
            << image.target << " " << kernel.name;
        EXPECT_LE(kernel.sharedBytes, 48 * 1024) << image.target << " " << kernel.name;
      }
    }
    EXPECT_EQ(seen, std::set<std::string>(image.kernels.begin(), image.kernels.end()));
    for (const char *kernel : {"gemm", "attention_forward_32", "prune_groups", "block_gemm_16", "adamw"})
      EXPECT_TRUE(seen.count(kernel)) << image.target << " " << kernel;
  }
}

} // namespace
} // namespace sluice::cuda
