// How long NVRTC takes for each kernel of the CUDA library, compiled by itself without the cache on disk, and
// what the machine code needs. Prints one JSON object; its empty_ms, the time of an empty kernel with the
// same headers, is what any must cost.
//   sluice-bench-kernels [--arch sm_80,sm_90a] [--only NAME] [--rounds N]
#include "codegen/cuda/LibraryUnits.h"
#include "runtime/device/cuda/Cubin.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>

namespace {

using namespace sluice;
using namespace sluice::cuda;

struct Row {
  std::string kernel, architecture;
  const TranslationUnit *unit;
  std::vector<double> ratios; // to an empty kernel, compiled just before it
  int64_t registers = 0;
  size_t bytes = 0;
};

StatusOr<std::string> timedCompile(const Nvrtc &nvrtc, const TranslationUnit &unit,
                                   const std::string &architecture, double &ms) {
  const auto start = std::chrono::steady_clock::now();
  StatusOr<std::string> code = nvrtc.compile(unit, architecture);
  ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return code;
}

Status run(const std::vector<std::string> &architectures, const std::string &only, int rounds) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const Nvrtc> nvrtc, Nvrtc::open());
  const TranslationUnit empty{"empty.cu", "#include \"Grouped.cuh\"\n#include \"Mask.cuh\"\n"
                                          "extern \"C\" __global__ void empty() {\n}\n"};
  const std::vector<KernelUnit> units = libraryUnits();
  std::vector<Row> rows;
  for (const KernelUnit &unit : units)
    for (const std::string &architecture : architectures)
      if (unit.kernels[0].find(only) != std::string::npos)
        rows.push_back({unit.kernels[0], architecture, &unit.text});
  // The machine's speed drifts, so each time is a ratio to that of an empty kernel just before it;
  // the fastest empty one turns ratios back into milliseconds.
  double emptyMs = 1e30;
  for (int round = 0; round < rounds; ++round)
    for (Row &row : rows) {
      double before = 0, own = 0;
      SLUICE_RETURN_IF_ERROR(timedCompile(*nvrtc, empty, row.architecture, before).status());
      SLUICE_ASSIGN_OR_RETURN(std::string code, timedCompile(*nvrtc, *row.unit, row.architecture, own));
      emptyMs = std::min(emptyMs, before);
      row.ratios.push_back(own / before);
      SLUICE_ASSIGN_OR_RETURN(std::vector<KernelResources> resources, readCubin(code, row.architecture));
      row.registers = resources.at(0).registers;
      row.bytes = code.size();
    }
  nlohmann::json output = nlohmann::json::array();
  for (Row &row : rows) {
    std::sort(row.ratios.begin(), row.ratios.end());
    output.push_back({{"kernel", row.kernel},
                      {"architecture", row.architecture},
                      {"ms", row.ratios[row.ratios.size() / 2] * emptyMs},
                      {"registers", row.registers},
                      {"cubin_bytes", row.bytes}});
  }
  std::cout << nlohmann::json{{"nvrtc", nvrtc->version()},
                              {"rounds", rounds},
                              {"empty_ms", emptyMs},
                              {"rows", output}}
                   .dump()
            << "\n";
  return absl::OkStatus();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Times the compilation of each kernel of the CUDA library", "sluice-bench-kernels");
  std::vector<std::string> architectures = {"sm_80", "sm_90a", "sm_100"};
  std::string only;
  app.add_option("--arch", architectures, "Architectures")->delimiter(',');
  app.add_option("--only", only, "Kernels whose names contain this");
  int rounds = 5;
  app.add_option("--rounds", rounds, "Compilations of each; the median counts")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const Status status = run(architectures, only, rounds);
  if (!status.ok())
    std::cerr << "sluice-bench-kernels: " << status.message() << "\n";
  return static_cast<int>(exitCode(status));
}
