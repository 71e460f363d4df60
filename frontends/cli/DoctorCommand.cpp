#include "frontends/cli/Conformance.h"
#include "frontends/cli/Paths.h"
#include "frontends/cli/RuntimeCommands.h"

#include "runtime/device/cuda/Driver.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <thread>

namespace sluice::cli {
namespace {

/// One line of the report: what was looked for, what was found, what that means.
struct Finding {
  std::string what, found, meaning;
};

std::string hostFeatures() {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return avx512 ? "AVX-512" : avx2 ? "AVX2" : "neither AVX2 nor AVX-512";
}

Finding cpu() {
  const bool able = hostFeatures().rfind("AVX", 0) == 0;
  return {"CPU", concat(std::thread::hardware_concurrency(), " threads, ", hostFeatures()),
          able ? "--device cpu works" : "programs compiled on newer machines do not run here"};
}

/// The devices of a driver, or why there are none.
Finding driver(const std::string &what, const std::string &library, const std::string &device, bool &usable) {
  StatusOr<std::shared_ptr<const cuda::Driver>> opened = cuda::Driver::open(library);
  if (!opened.ok())
    return {what, "not usable", std::string(opened.status().message())};
  const cuda::Driver &api = **opened;
  int version = 0, count = 0;
  api.driverGetVersion(&version);
  api.deviceGetCount(&count);
  std::string names;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice handle = 0;
    std::array<char, 128> name{};
    int major = 0, minor = 0;
    api.deviceGet(&handle, ordinal);
    api.deviceGetName(name.data(), static_cast<int>(name.size()) - 1, handle);
    api.deviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
    api.deviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle);
    names += concat(names.empty() ? "" : "; ", ordinal, ": ", name.data(), ", sm_", major, minor);
  }
  usable = count > 0;
  return {what,
          concat("CUDA ", version / 1000, ".", version % 1000 / 10, ", ", count,
                 count == 1 ? " device" : " devices", count ? " (" : "", names, count ? ")" : ""),
          usable ? concat("--device ", device, " works")
                 : concat("--device ", device, " has nothing to run on")};
}

Finding library(const std::string &what, const std::vector<std::string> &names, const std::string &with,
                const std::string &without) {
  for (const std::string &name : names)
    if (void *handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
      ::dlclose(handle);
      return {what, name, with};
    }
  return {what, "not found", without};
}

Status doctor(const std::string &required) {
  bool cuda = false, simulated = false;
  std::vector<Finding> findings = {cpu(), driver("CUDA driver", "libcuda.so.1", "cuda", cuda)};
  StatusOr<std::string> path = simulatedDriver();
  findings.push_back(path.ok()
                         ? driver("simulated CUDA", *path, "cuda-sim", simulated)
                         : Finding{"simulated CUDA", "not found", std::string(path.status().message())});
  const char *named = std::getenv("SLUICE_NVRTC");
  findings.push_back(library(
      "NVRTC",
      named
          ? std::vector<std::string>{named}
          : std::vector<std::string>{"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"},
      "compile --target cuda:sm_N works",
      "compile --target cuda:sm_N does not work; install the CUDA toolkit or the Python package "
      "nvidia-cuda-nvrtc and name its library in SLUICE_NVRTC"));
  findings.push_back(
      library("cuBLASLt", {"libcublasLt.so.13"}, "dense products on --device cuda use it",
              "--device cuda multiplies with its own, slower kernel; install the CUDA toolkit"));
  for (const Finding &finding : findings)
    std::printf("%-15s %s\n                %s\n", finding.what.c_str(), finding.found.c_str(),
                finding.meaning.c_str());
  if ((required == "cuda" && !cuda) || (required == "cuda-sim" && !simulated))
    return failure("--require ", required, ": not usable on this machine; the reason is above");
  return absl::OkStatus();
}

/// Each command of an executable on a device against the CPU, as a table; an error where one differs.
Status conformance(const std::string &path, const std::string &deviceName, const Invocation &invocation) {
  SLUICE_RETURN_IF_ERROR(requireInput("--conformance", path, "an executable (.slx)"));
  SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(path));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(deviceName, invocation));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> cpu, openDevice("cpu", invocation));
  const auto start = std::chrono::steady_clock::now();
  SLUICE_ASSIGN_OR_RETURN(std::vector<ConformanceRow> rows,
                          checkConformance(executable, *cpu, *device, /*seed=*/1));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::string differing;
  int commands = 0;
  for (const ConformanceRow &row : rows) {
    commands += row.commands;
    if (!row.conforms())
      differing += concat(differing.empty() ? "" : ", ", row.kind);
  }
  std::printf("\nConformance of %s with the CPU: model %s (%s), %d commands, %.1f s\n%s",
              device->name().c_str(), executable.description.model.c_str(),
              executable.sha256.substr(0, 16).c_str(), commands, seconds.count(),
              conformanceTable(rows).c_str());
  return differing.empty() ? absl::OkStatus()
                           : failure("--conformance: expected results within ", conformanceLimit,
                                     " of the CPU's and equal integers, found others in ", differing,
                                     "; the table says where");
}

} // namespace

void addDoctorCommand(CLI::App &app, Invocation &invocation) {
  CLI::App *command =
      app.add_subcommand("doctor", "Say which devices and libraries this machine has, and what that means");
  auto required = std::make_shared<std::string>("cpu");
  command
      ->add_option("--require", *required, "Exit with 1 unless this device is usable: cpu, cuda or cuda-sim")
      ->type_name("DEVICE")
      ->capture_default_str()
      ->check(oneOf({"cpu", "cuda", "cuda-sim"}));
  auto executable = std::make_shared<std::string>(), device = std::make_shared<std::string>("cuda");
  CLI::Option *conforms =
      command
          ->add_option(
              "--conformance", *executable,
              "Also run every command of this executable on --device and compare with the CPU; exit with 1 "
              "where one differs")
          ->type_name("FILE.slx");
  command->add_option("--device", *device, "What --conformance looks at: cuda, cuda:N, cuda-sim")
      ->type_name("DEVICE")
      ->capture_default_str()
      ->needs(conforms);
  addThreads(*command, invocation);
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation]() -> Status {
      SLUICE_RETURN_IF_ERROR(doctor(*required));
      return executable->empty() ? absl::OkStatus() : conformance(*executable, *device, invocation);
    };
  });
}

} // namespace sluice::cli
