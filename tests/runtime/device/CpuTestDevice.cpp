#include "runtime/device/cpu/CpuDevice.h"
#include "tests/runtime/device/CommandRunner.h"

#include <map>

namespace sluice::test {

const bool takesLargeShapes = true;

StatusOr<Device *> testDevice(int variant) {
  static auto *devices = new std::map<int, std::unique_ptr<Device>>;
  std::unique_ptr<Device> &device = (*devices)[variant];
  if (!device) {
    SLUICE_ASSIGN_OR_RETURN(device, createCpuDevice(variant));
  }
  return device.get();
}

Status checkTestDevice() {
  return absl::OkStatus();
}

} // namespace sluice::test
