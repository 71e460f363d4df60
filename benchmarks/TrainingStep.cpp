// Times whole training steps of an executable: forward, backward, clipping, AdamW; and the update of masks
// that move. Prints one JSON object.
//   sluice-bench-step MODEL.slx [--steps N] [--threads N]
#include "benchmarks/ZipfTokens.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/executor/Session.h"
#include "runtime/train/Evaluate.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace {

// Every allocation of the process is counted, ours and the libraries': malloc is replaced by a counting one.
std::atomic<uint64_t> allocations{0};

} // namespace

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void *realloc(void *address, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(address, size);
}
}

namespace sluice::benchmarks {
namespace {

/// VmHWM of this process in bytes; 0 if the system does not say.
uint64_t peakBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.rfind("VmHWM:", 0) == 0)
      return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The best of a few runs of an entry point, in milliseconds.
StatusOr<double> bestRun(Session &session, const std::string &entry) {
  double best = 1e30;
  for (int repeat = 0; repeat < 4; ++repeat) { // the first prepares
    const auto start = std::chrono::steady_clock::now();
    SLUICE_RETURN_IF_ERROR(session.run(entry));
    best = std::min(best, 1e3 * secondsSince(start));
  }
  return best;
}

/// What an update of the masks costs beyond a step: growth by gradient also needs the whole gradients.
Status addMaskUpdate(Session &session, nlohmann::json &result) {
  if (!session.has("update_topology"))
    return absl::OkStatus();
  const int64_t seed = 1, step = 1, amount = 100000000; // a tenth of the kept weights
  for (auto [name, value] : {std::pair("seed", &seed), {"step", &step}, {"amount", &amount}})
    SLUICE_RETURN_IF_ERROR(session.setInput<int64_t>("update_topology", name, {value, 1}));
  SLUICE_ASSIGN_OR_RETURN(double cost, bestRun(session, "update_topology"));
  if (session.has("accumulate_dense")) {
    const size_t tokens = static_cast<size_t>((*session.input("accumulate", "tokens"))->elements());
    std::vector<int32_t> ids(tokens, 1);
    for (const char *name : {"tokens", "targets"})
      SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("accumulate_dense", name, {ids.data(), tokens}));
    SLUICE_ASSIGN_OR_RETURN(double whole, bestRun(session, "accumulate_dense"));
    SLUICE_ASSIGN_OR_RETURN(double plain, bestRun(session, "accumulate"));
    cost += std::max(0.0, whole - plain);
  }
  result["mask_update_ms"] = cost;
  return absl::OkStatus();
}

Status run(const std::string &path, int64_t steps, int threads) {
  auto start = std::chrono::steady_clock::now();
  SLUICE_ASSIGN_OR_RETURN(Executable executable, loadExecutable(path));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createCpuDevice(threads));
  SLUICE_ASSIGN_OR_RETURN(Session session, Session::create(executable, *device));
  SLUICE_RETURN_IF_ERROR(session.initialize(1));
  SLUICE_ASSIGN_OR_RETURN(BatchShape shape, batchShape(session, "accumulate"));
  SLUICE_ASSIGN_OR_RETURN(int64_t vocabulary, modelVocabulary(executable.description));
  int64_t tokens = shape.batch * shape.sequence;
  std::vector<double> times;
  std::vector<uint64_t> allocated;
  double firstStep = 0, loss = 0;
  for (int64_t step = 0; step < steps + 2; ++step) {
    std::vector<int32_t> ids = zipfTokens(tokens + 1, vocabulary, static_cast<uint64_t>(step));
    auto stepStart = std::chrono::steady_clock::now();
    uint64_t before = allocations.load();
    SLUICE_RETURN_IF_ERROR(
        session.setInput<int32_t>("accumulate", "tokens", {ids.data(), static_cast<size_t>(tokens)}));
    SLUICE_RETURN_IF_ERROR(
        session.setInput<int32_t>("accumulate", "targets", {ids.data() + 1, static_cast<size_t>(tokens)}));
    SLUICE_RETURN_IF_ERROR(session.run("accumulate"));
    float rate = 3e-4f, number = static_cast<float>(step + 1), counted = static_cast<float>(tokens);
    SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "learning_rate", {&rate, 1}));
    SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "step", {&number, 1}));
    SLUICE_RETURN_IF_ERROR(session.setInput<float>("apply", "tokens", {&counted, 1}));
    SLUICE_RETURN_IF_ERROR(session.run("apply"));
    SLUICE_ASSIGN_OR_RETURN(float sum, session.scalarOutput("accumulate", "loss_sum"));
    loss = sum / counted;
    if (step == 0)
      firstStep = secondsSince(start);
    if (step >= 2) {
      times.push_back(secondsSince(stepStart));
      allocated.push_back(allocations.load() - before);
    }
  }
  std::sort(times.begin(), times.end());
  nlohmann::json result = {{"tokens_per_s", static_cast<double>(tokens) / times[times.size() / 2]},
                           {"step_ms", times[times.size() / 2] * 1e3},
                           {"best_step_ms", times[0] * 1e3},
                           {"first_step_s", firstStep},
                           {"peak_bytes", peakBytes()},
                           {"allocations_per_step", allocated.back()},
                           {"loss", loss}};
  SLUICE_RETURN_IF_ERROR(addMaskUpdate(session, result));
  std::cout << result.dump() << "\n";
  return absl::OkStatus();
}

} // namespace
} // namespace sluice::benchmarks

int main(int argc, char **argv) {
  CLI::App app("Times whole training steps of an executable and prints one JSON object", "sluice-bench-step");
  std::string path;
  int64_t steps = 8;
  int threads = 2;
  app.add_option("MODEL", path, "An executable (.slx)")->required();
  app.add_option("--steps", steps, "Steps to time after two warm-up steps")->check(CLI::Range(1, 10000));
  app.add_option("--threads", threads, "Threads")->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  if (sluice::Status status = sluice::benchmarks::run(path, steps, threads); !status.ok()) {
    std::fprintf(stderr, "sluice-bench-step: error: %s\n", std::string(status.message()).c_str());
    return static_cast<int>(sluice::exitCode(status));
  }
  return 0;
}
