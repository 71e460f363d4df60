#include "runtime/device/cudasim/driver/Simulator.h"

#include "runtime/device/cudasim/driver/Device.h"

using namespace sluice::cudasim;

namespace {
/// Texts that callers were given; each lives until the next call of its function.
std::string findingsText, statisticsText, callsText;
} // namespace

int cudasimConfigure(const char *settings) {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  if (!settings)
    return device.fail(CUDA_ERROR_INVALID_VALUE, "cudasimConfigure: no settings");
  const sluice::Status status = applySettings(settings, device.settings);
  if (!status.ok())
    return device.fail(CUDA_ERROR_INVALID_VALUE, std::string(status.message()));
  device.work.seed(device.settings.seed);
  return CUDA_SUCCESS;
}

const char *cudasimMessage() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  return device.message.c_str();
}

void cudasimLabel(const char *text) {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  device.label = text ? text : "";
}

const char *cudasimFindings() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  findingsText.clear();
  for (const Finding &finding : device.findings.all())
    findingsText += finding.text() + "\n";
  return findingsText.c_str();
}

void cudasimClearFindings() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  device.findings.clear();
}

const char *cudasimStatistics() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  statisticsText.clear();
  for (const std::string &line : device.statistics)
    statisticsText += line + "\n";
  return statisticsText.c_str();
}

const char *cudasimCalls() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  callsText = sluice::concat("{\"host_waits\":", device.calls.hostWaits,
                             ",\"graph_launches\":", device.calls.graphLaunches,
                             ",\"graph_nodes\":", device.calls.graphNodes, "}");
  return callsText.c_str();
}

void cudasimClearStatistics() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  device.statistics.clear();
  device.calls = {};
}

int cudasimMachineCode(const void *image, size_t bytes) {
  return withDevice([&](Device &device) {
    if (!image)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cudasimMachineCode: no image");
    return device.describeKernels({static_cast<const char *>(image), bytes});
  });
}

void *cudasimHostAddress(unsigned long long address, size_t bytes, int writes) {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  if (bytes == 0 || !device.holds(address, bytes))
    return nullptr;
  if (writes)
    device.memory().markWritten(address, bytes);
  return device.memory().host(address);
}

int cudasimEnqueue(void *stream, int (*work)(void *data), void (*destroy)(void *data), void *data) {
  std::shared_ptr<void> owned(data, destroy);
  return withDevice([&](Device &device) {
    CUstream target = device.stream(static_cast<CUstream>(stream));
    if (!target)
      return device.fail(CUDA_ERROR_INVALID_HANDLE, "not a stream");
    return device.enqueue(target, [work, owned] { return CUresult(work(owned.get())); });
  });
}

void cudasimReset() {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  device.reset();
}
