// Launches of the simulated device: limits, execution, what is reported.
#include "runtime/device/cudasim/driver/Device.h"

#include <cstdio>
#include <thread>

namespace sluice::cudasim {

namespace {

CUresult faultResult(Fault fault) {
  switch (fault) {
  case Fault::None:
    return CUDA_SUCCESS;
  case Fault::IllegalAddress:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case Fault::Misaligned:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case Fault::NoProgress:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  case Fault::Trap:
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

} // namespace

std::string Device::launchFault(const CUfunc_st &function, const LaunchRequest &request) const {
  const Kernel &kernel = *request.kernel;
  constexpr uint32_t kGridLimit[3] = {0x7fffffff, 65535, 65535}, kBlockLimit[3] = {1024, 1024, 64};
  uint64_t threads = 1, allowed = 1;
  for (int i = 0; i < 3; ++i) {
    const char axis = static_cast<char>('x' + i);
    if (request.grid[i] < 1 || request.grid[i] > kGridLimit[i])
      return absl::StrFormat("grid %c: expected 1 to %d, found %d", axis, kGridLimit[i], request.grid[i]);
    if (request.block[i] < 1 || request.block[i] > kBlockLimit[i])
      return absl::StrFormat("block %c: expected 1 to %d, found %d", axis, kBlockLimit[i], request.block[i]);
    threads *= request.block[i];
    allowed *= kernel.maxThreads[i];
    if (kernel.requiredThreads[i] != 0 && kernel.requiredThreads[i] != request.block[i])
      return absl::StrFormat("block %c: the kernel requires %d, found %d", axis, kernel.requiredThreads[i],
                             request.block[i]);
  }
  if (threads > 1024)
    return absl::StrFormat("expected at most 1024 threads a block, found %d", threads);
  if (allowed != 0 && threads > allowed)
    return absl::StrFormat("the kernel is compiled for at most %d threads a block, found %d", allowed,
                           threads);
  const uint64_t opted = static_cast<uint64_t>(limitsOf(settings.architecture).maximumShared);
  if (request.dynamicSharedBytes > static_cast<uint64_t>(function.dynamicShared))
    return absl::StrFormat(
        "expected at most %d bytes of dynamic shared memory (cuFuncSetAttribute raises it), found %d",
        function.dynamicShared, request.dynamicSharedBytes);
  if (kernel.sharedBytes + uint64_t(request.dynamicSharedBytes) > opted)
    return absl::StrFormat("expected at most %d bytes of shared memory, found %d static and %d dynamic",
                           opted, kernel.sharedBytes, request.dynamicSharedBytes);
  return {};
}

CUresult Device::launch(CUfunction function, LaunchRequest request, CUstream target) {
  request.label = label;
  const std::string fault = launchFault(*function, request);
  if (!fault.empty()) {
    if (settings.checks.has(Check::Launch)) {
      Finding finding;
      finding.check = Check::Launch;
      finding.kernel = request.kernel->name;
      finding.label = label;
      finding.message = fault;
      findings.add(std::move(finding));
    }
    return fail(CUDA_ERROR_INVALID_VALUE, "kernel '" + request.kernel->name + "': " + fault);
  }
  return enqueue(target, [this, request = std::move(request)] { return runLaunch(request); });
}

CUresult Device::runLaunch(const LaunchRequest &request) {
  const int wanted = settings.threads != 0
                         ? settings.threads
                         : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (!pool || pool->threads() != wanted)
    pool = std::make_unique<ThreadPool>(wanted);
  Grid grid(request, *deviceMemory, settings, findings);
  const CUresult result = faultResult(grid.run(*pool));
  const std::string counts = grid.statistics.json(request.kernel->name);
  if (settings.statistics)
    statistics.push_back(counts);
  if (!settings.report.empty())
    if (std::FILE *file = std::fopen(settings.report.c_str(), "a")) {
      std::fprintf(file, "%s\n", counts.c_str());
      std::fclose(file);
    }
  if (result == CUDA_SUCCESS)
    return result;
  const std::vector<Finding> found = findings.all();
  sticky = result;
  return fail(result, found.empty() ? "kernel '" + request.kernel->name + "' failed" : found.front().text());
}

} // namespace sluice::cudasim
