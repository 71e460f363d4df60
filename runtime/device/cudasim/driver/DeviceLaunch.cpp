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

uint64_t Device::staticShared(const CUfunc_st &function) const {
  if (!function.assembled)
    return function.kernel->sharedBytes;
  const int64_t own = function.assembled->sharedBytes - limitsOf(settings.architecture).systemShared;
  return static_cast<uint64_t>(std::max<int64_t>(own, 0));
}

int Device::maximumThreads(const CUfunc_st &function) const {
  uint64_t most = 1024;
  const auto bound = [&most](uint64_t threads) {
    if (threads != 0)
      most = std::min(most, threads);
  };
  const Kernel &kernel = *function.kernel;
  bound(uint64_t{kernel.maxThreads[0]} * kernel.maxThreads[1] * kernel.maxThreads[2]);
  if (function.assembled) {
    bound(static_cast<uint64_t>(function.assembled->maxThreads));
    const auto registers = static_cast<uint64_t>(function.assembled->registers);
    while (most > 32 && registersOfBlock(registers, most) > kRegistersOfBlock)
      most = (most - 1) / 32 * 32;
  }
  return static_cast<int>(most);
}

std::string Device::launchFault(const CUfunc_st &function, const LaunchRequest &request,
                                CUresult &error) const {
  error = CUDA_ERROR_INVALID_VALUE;
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
  if (function.assembled && function.assembled->maxThreads != 0)
    allowed = static_cast<uint64_t>(function.assembled->maxThreads);
  if (allowed != 0 && threads > allowed)
    return absl::StrFormat("the kernel is compiled for at most %d threads a block, found %d", allowed,
                           threads);
  if (function.assembled) {
    const auto registers = static_cast<uint64_t>(function.assembled->registers);
    if (const uint64_t taken = registersOfBlock(registers, threads); taken > kRegistersOfBlock) {
      error = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
      return absl::StrFormat("expected a block to take at most %d registers, found %d: %d threads of %d "
                             "registers; at most %d threads fit",
                             kRegistersOfBlock, taken, threads, registers, maximumThreads(function));
    }
  }
  const uint64_t opted = static_cast<uint64_t>(limitsOf(settings.architecture).maximumShared);
  if (request.dynamicSharedBytes > static_cast<uint64_t>(function.dynamicShared))
    return absl::StrFormat(
        "expected at most %d bytes of dynamic shared memory (cuFuncSetAttribute raises it), found %d",
        function.dynamicShared, request.dynamicSharedBytes);
  if (const uint64_t own = staticShared(function); own + request.dynamicSharedBytes > opted)
    return absl::StrFormat("expected at most %d bytes of shared memory, found %d static and %d dynamic",
                           opted, own, request.dynamicSharedBytes);
  return {};
}

CUresult Device::launch(CUfunction function, LaunchRequest request, CUstream target) {
  request.label = label;
  CUresult error = CUDA_SUCCESS;
  const std::string fault = launchFault(*function, request, error);
  if (!fault.empty()) {
    if (settings.checks.has(Check::Launch)) {
      Finding finding;
      finding.check = Check::Launch;
      finding.kernel = request.kernel->name;
      finding.label = label;
      finding.message = fault;
      findings.add(std::move(finding));
    }
    return fail(error, "kernel '" + request.kernel->name + "': " + fault);
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
